//! Listing and pruning of stored packages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{EnvironmentRecord, PackageStore, StoreError};
use crate::dir_lock;
use crate::disk::{self, names, size};
use crate::index::WHEEL_DIR_PREFIX;

/// File name of an environment's description.
pub(super) const RECORD_FILE: &str = "environment.json";

/// A wheel in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredWheel {
    /// The wheel's file name.
    pub(crate) file: String,
    /// The sha256 of the wheel.
    pub(crate) sha256: String,
    /// Size on disk in bytes.
    pub(crate) size: u64,
    /// Targets of the environments that contain the wheel.
    pub(crate) targets: BTreeSet<String>,
    /// The source distribution that the wheel was built from on this machine, if any: the file's name and its sha256.
    pub(crate) origin: Option<(String, String)>,
}

/// Counts of removed entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PruneReport {
    /// Number of environments.
    pub environments: usize,
    /// Number of wheels.
    pub wheels: usize,
    /// Size in bytes.
    pub bytes: u64,
}

impl PackageStore {
    /// Lists the wheels in the store, by file name.
    #[must_use]
    pub(crate) fn entries(&self) -> Vec<StoredWheel> {
        let described = self.environment_records();
        let mut entries: Vec<StoredWheel> = names(&self.root.join("wheels"))
            .into_iter()
            .map(|sha256| {
                let within = described.iter().flat_map(|(_, one)| {
                    one.wheels.iter().filter(|(_, content)| *content == sha256).map(|(file, _)| (file, &one.target))
                });
                let (files, targets): (Vec<&String>, BTreeSet<String>) =
                    within.map(|(file, target)| (file, target.clone())).unzip();
                let file = files.first().map_or_else(|| self.name_from_metadata(&sha256), |file| (*file).clone());
                let origin = self.origin(&sha256);
                StoredWheel { file, size: size(&self.wheel_dir(&sha256)), sha256, targets, origin }
            })
            .collect();
        // The order ignores case, since only some file names keep the capitals of the package's name.
        entries.sort_by_cached_key(|one| (one.file.to_lowercase(), one.sha256.clone()));
        entries
    }

    /// Returns a wheel's name according to the metadata in it.
    fn name_from_metadata(&self, sha256: &str) -> String {
        let inside = names(&self.wheel_dir(sha256).join(super::MODULES));
        let described = inside.iter().find_map(|name| name.strip_suffix(".dist-info"));
        described.unwrap_or(sha256).to_owned()
    }

    /// Removes every environment that no run uses, the wheels and bytecode that no remaining environment uses, source
    /// distributions that are not being built, and the cached answers of indexes. Waits for processes that add entries,
    /// and calls `on_wait` before it does.
    ///
    /// # Errors
    /// When an entry cannot be removed.
    pub(crate) fn prune(&self, on_wait: &dyn Fn()) -> Result<PruneReport, StoreError> {
        if !self.root.is_dir() {
            return Ok(PruneReport::default());
        }
        let _guard =
            dir_lock::acquire_exclusive_lock(&self.root, on_wait).map_err(StoreError::io("lock", &self.root))?;
        let mut pruned = PruneReport::default();
        let mut used = BTreeSet::new();
        for (entry_dir, record) in self.environment_records() {
            // The lock is held during the removal: a process that opens the environment meanwhile waits, and then finds
            // it gone.
            let free = File::open(entry_dir.join(RECORD_FILE)).ok().filter(|file| file.try_lock().is_ok());
            if free.is_some() {
                pruned.bytes += size(&entry_dir.join(RECORD_FILE));
                remove(&entry_dir)?;
                pruned.environments += 1;
            } else {
                used.extend(record.wheels.into_iter().map(|(_, sha256)| sha256));
            }
        }
        // The exclusive lock excludes all writers, so unfinished entries are the remains of killed processes.
        let compiled = self.root.join("compiled");
        let mut leftovers: Vec<(PathBuf, &str)> = [
            ("wheels", ".wheel-"),
            ("environments", ".environment-"),
            ("sources", ".source-"),
            ("index", WHEEL_DIR_PREFIX),
        ]
        .map(|(dir, staged)| (self.root.join(dir), staged))
        .into();
        leftovers.extend(names(&compiled).into_iter().map(|runtime| (compiled.join(runtime), super::WORK_DIR_PREFIX)));
        leftovers.extend([self.root.clone(), compiled.clone()].map(|dir| (dir, disk::TRASH_PREFIX)));
        for (dir, staged) in leftovers {
            pruned.bytes += disk::sweep(&dir, staged).map_err(StoreError::io("clear", &dir))?;
        }
        for entry in fs::read_dir(&compiled).into_iter().flatten().flatten() {
            let is_work_dir = entry.file_name().to_string_lossy().starts_with(super::WORK_DIR_PREFIX);
            let held = File::open(entry.path().join(super::LOCK_FILE));
            if is_work_dir && held.is_ok_and(|held| held.try_lock().is_ok()) {
                pruned.bytes += size(&entry.path());
                remove(&entry.path())?;
            }
        }
        for sha256 in names(&self.root.join("wheels")) {
            if !used.contains(&sha256) {
                let entry_dir = self.wheel_dir(&sha256);
                pruned.bytes += size(&entry_dir);
                remove(&entry_dir)?;
                pruned.wheels += 1;
            }
        }
        for sha256 in names(&self.root.join("sources")) {
            let entry_dir = self.root.join("sources").join(sha256);
            // A source distribution that is being built is locked.
            let file = File::open(entry_dir.join(super::source::ARCHIVE_NAME_FILE));
            if file.as_ref().is_ok_and(|file| file.try_lock().is_ok()) {
                pruned.bytes += size(&entry_dir);
                remove(&entry_dir)?;
            }
        }
        self.remove_stale_build_records().map_err(StoreError::io("remove", &self.root))?;
        for runtime in names(&compiled) {
            for sha256 in names(&compiled.join(&runtime)) {
                if !used.contains(&sha256) {
                    let entry_dir = compiled.join(&runtime).join(&sha256);
                    pruned.bytes += size(&entry_dir);
                    remove(&entry_dir)?;
                }
            }
        }
        for other in ["remembered", "index"] {
            let entry_dir = self.root.join(other);
            pruned.bytes += size(&entry_dir);
            remove(&entry_dir)?;
        }
        Ok(pruned)
    }

    fn environment_records(&self) -> Vec<(PathBuf, EnvironmentRecord)> {
        let parent_dir = self.root.join("environments");
        let read = |name: String| {
            let entry_dir = parent_dir.join(name);
            let text = fs::read(entry_dir.join(RECORD_FILE)).ok()?;
            Some((entry_dir, serde_json::from_slice(&text).ok()?))
        };
        names(&parent_dir).into_iter().filter_map(read).collect()
    }
}

fn remove(entry_dir: &Path) -> Result<(), StoreError> {
    disk::remove(entry_dir).map_err(StoreError::io("remove", entry_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_leftovers_of_killed_processes() {
        let root = tempfile::tempdir().expect("a directory");
        let leftovers = [
            ".gone-x/whole",
            "wheels/.wheel-x",
            "wheels/.gone-x/whole",
            "environments/.environment-x",
            "environments/.gone-x/whole",
            "sources/.source-x",
            "sources/.gone-x/whole",
            "compiled/.gone-x/whole",
            "compiled/python/.compiled-x",
            "compiled/python/.gone-x/whole",
        ]
        .map(|name| root.path().join(name));
        for dir in &leftovers {
            fs::create_dir_all(dir).expect("a directory");
            fs::write(dir.join("file"), "1").expect("a file");
        }
        let pruned = PackageStore::at(root.path().to_owned()).prune(&|| ()).expect("the store is pruned");
        assert_eq!(pruned, PruneReport { bytes: 10, ..PruneReport::default() });
        for dir in &leftovers {
            assert!(!dir.exists(), "{}", dir.display());
        }
    }
}

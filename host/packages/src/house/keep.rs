//! Listing and pruning of stored packages.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Described, House, HouseError};
use crate::disk::{self, names, size};
use crate::resolve::WHOLE;
use crate::turns;

/// File name of an environment's description.
pub(super) const DESCRIBED: &str = "environment.json";

/// A wheel in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The wheel's file name.
    pub file: String,
    /// The sha256 of the wheel.
    pub sha256: String,
    /// Size on disk in bytes.
    pub size: u64,
    /// Targets of the environments that contain the wheel.
    pub targets: BTreeSet<String>,
    /// The source distribution that the wheel was built from on this machine, if any: the file's name and its sha256.
    pub origin: Option<(String, String)>,
}

/// Counts of removed entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Number of environments.
    pub environments: usize,
    /// Number of wheels.
    pub wheels: usize,
    /// Size in bytes.
    pub bytes: u64,
}

impl House {
    /// Lists the wheels in the store, by file name.
    #[must_use]
    pub fn kept(&self) -> Vec<Kept> {
        let described = self.described();
        let mut kept: Vec<Kept> = names(&self.root.join("wheels"))
            .into_iter()
            .map(|sha256| {
                let within = described.iter().flat_map(|(_, one)| {
                    one.wheels.iter().filter(|(_, content)| *content == sha256).map(|(file, _)| (file, &one.target))
                });
                let (files, targets): (Vec<&String>, BTreeSet<String>) =
                    within.map(|(file, target)| (file, target.clone())).unzip();
                let file = files.first().map_or_else(|| self.named(&sha256), |file| (*file).clone());
                let origin = self.origin(&sha256);
                Kept { file, size: size(&self.wheel_dir(&sha256)), sha256, targets, origin }
            })
            .collect();
        // The order ignores case, since only some file names keep the capitals of the package's name.
        kept.sort_by_cached_key(|one| (one.file.to_lowercase(), one.sha256.clone()));
        kept
    }

    /// Returns a wheel's name according to the metadata in it.
    fn named(&self, sha256: &str) -> String {
        let inside = names(&self.wheel_dir(sha256).join(super::MODULES));
        let described = inside.iter().find_map(|name| name.strip_suffix(".dist-info"));
        described.unwrap_or(sha256).to_owned()
    }

    /// Removes every environment that no run uses, the wheels and bytecode that no remaining environment uses, source
    /// distributions that are not being built, and the cached answers of indexes. Waits for processes that add entries,
    /// and calls `waits` before it does.
    ///
    /// # Errors
    /// When an entry cannot be removed.
    pub fn prune(&self, waits: &dyn Fn()) -> Result<Pruned, HouseError> {
        if !self.root.is_dir() {
            return Ok(Pruned::default());
        }
        let _turn = turns::alone(&self.root, waits).map_err(HouseError::io("lock", &self.root))?;
        let mut pruned = Pruned::default();
        let mut used = BTreeSet::new();
        for (place, described) in self.described() {
            // The lock is held during the removal: a process that opens the environment meanwhile waits, and then finds
            // it gone.
            let free = File::open(place.join(DESCRIBED)).ok().filter(|file| file.try_lock().is_ok());
            if free.is_some() {
                pruned.bytes += size(&place.join(DESCRIBED));
                remove(&place)?;
                pruned.environments += 1;
            } else {
                used.extend(described.wheels.into_iter().map(|(_, sha256)| sha256));
            }
        }
        // The exclusive lock excludes all writers, so unfinished entries are the remains of killed processes.
        let compiled = self.root.join("compiled");
        let mut left: Vec<(PathBuf, &str)> =
            [("wheels", ".wheel-"), ("environments", ".environment-"), ("sources", ".source-"), ("index", WHOLE)]
                .map(|(dir, staged)| (self.root.join(dir), staged))
                .into();
        left.extend(names(&compiled).into_iter().map(|runtime| (compiled.join(runtime), super::BENCH)));
        left.extend([self.root.clone(), compiled.clone()].map(|dir| (dir, disk::GONE)));
        for (dir, staged) in left {
            pruned.bytes += disk::sweep(&dir, staged).map_err(HouseError::io("clear", &dir))?;
        }
        for entry in fs::read_dir(&compiled).into_iter().flatten().flatten() {
            let bench = entry.file_name().to_string_lossy().starts_with(super::BENCH);
            let held = File::open(entry.path().join(super::HELD));
            if bench && held.is_ok_and(|held| held.try_lock().is_ok()) {
                pruned.bytes += size(&entry.path());
                remove(&entry.path())?;
            }
        }
        for sha256 in names(&self.root.join("wheels")) {
            if !used.contains(&sha256) {
                let place = self.wheel_dir(&sha256);
                pruned.bytes += size(&place);
                remove(&place)?;
                pruned.wheels += 1;
            }
        }
        for sha256 in names(&self.root.join("sources")) {
            let place = self.root.join("sources").join(sha256);
            // A source distribution that is being built is locked.
            let file = File::open(place.join(super::source::NAMED));
            if file.as_ref().is_ok_and(|file| file.try_lock().is_ok()) {
                pruned.bytes += size(&place);
                remove(&place)?;
            }
        }
        self.forget_built().map_err(HouseError::io("remove", &self.root))?;
        for runtime in names(&compiled) {
            for sha256 in names(&compiled.join(&runtime)) {
                if !used.contains(&sha256) {
                    let place = compiled.join(&runtime).join(&sha256);
                    pruned.bytes += size(&place);
                    remove(&place)?;
                }
            }
        }
        for other in ["remembered", "index"] {
            let place = self.root.join(other);
            pruned.bytes += size(&place);
            remove(&place)?;
        }
        Ok(pruned)
    }

    fn described(&self) -> Vec<(PathBuf, Described)> {
        let above = self.root.join("environments");
        let read = |name: String| {
            let place = above.join(name);
            let text = fs::read(place.join(DESCRIBED)).ok()?;
            Some((place, serde_json::from_slice(&text).ok()?))
        };
        names(&above).into_iter().filter_map(read).collect()
    }
}

fn remove(place: &Path) -> Result<(), HouseError> {
    disk::remove(place).map_err(HouseError::io("remove", place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_is_pruned() {
        let root = tempfile::tempdir().expect("a directory");
        let left = [
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
        for dir in &left {
            fs::create_dir_all(dir).expect("a directory");
            fs::write(dir.join("file"), "1").expect("a file");
        }
        let pruned = House::at(root.path().to_owned()).prune(&|| ()).expect("that it is pruned");
        assert_eq!(pruned, Pruned { bytes: 10, ..Pruned::default() });
        for dir in &left {
            assert!(!dir.exists(), "{}", dir.display());
        }
    }
}

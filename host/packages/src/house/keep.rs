//! What is kept, listed and removed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::{Described, House, HouseError};
use crate::disk::{self, names, size};
use crate::resolve::WHOLE;
use crate::turns;

/// An environment's description.
pub(super) const DESCRIBED: &str = "environment.json";

/// A wheel that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its file name.
    pub file: String,
    /// Its content.
    pub sha256: String,
    /// Bytes on disk.
    pub size: u64,
    /// The targets of environments that it is in.
    pub targets: BTreeSet<String>,
    /// The source distribution that it was built of here, if it was: the file's name and its sha256.
    pub origin: Option<(String, String)>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Environments.
    pub environments: usize,
    /// Wheels.
    pub wheels: usize,
    /// Bytes.
    pub bytes: u64,
}

impl House {
    /// The wheels that are kept, by file name.
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
        // As people look for them: some files have their names' capitals, and others have not.
        kept.sort_by_cached_key(|one| (one.file.to_lowercase(), one.sha256.clone()));
        kept
    }

    /// A wheel's name by the metadata in it.
    fn named(&self, sha256: &str) -> String {
        let inside = names(&self.wheel_dir(sha256).join(super::MODULES));
        let described = inside.iter().find_map(|name| name.strip_suffix(".dist-info"));
        described.unwrap_or(sha256).to_owned()
    }

    /// Removes every environment that no run holds, the wheels and bytecode that are in none of those left, source
    /// distributions that nobody builds at the moment, and what indexes said. Waits for those who are adding something, and
    /// calls `waits` before it does.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn prune(&self, waits: &dyn Fn()) -> Result<Pruned, HouseError> {
        if !self.root.is_dir() {
            return Ok(Pruned::default());
        }
        let _turn = turns::alone(&self.root, waits).map_err(HouseError::io("lock", &self.root))?;
        let mut pruned = Pruned::default();
        let mut used = BTreeSet::new();
        for (place, described) in self.described() {
            // Held while it is removed: who wants it meanwhile waits, and then finds it gone.
            let free = File::open(place.join(DESCRIBED)).ok().filter(|file| file.try_lock().is_ok());
            if free.is_some() {
                pruned.bytes += size(&place.join(DESCRIBED));
                remove(&place)?;
                pruned.environments += 1;
            } else {
                used.extend(described.wheels.into_iter().map(|(_, sha256)| sha256));
            }
        }
        // Nobody is making anything now, so that this is what a process left that was killed.
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
            // One that is being built is held.
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

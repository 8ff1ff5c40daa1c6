//! Listing and pruning of stored npm packages.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::environment::NOTED;
use super::error::NpmError;
use super::store::{NpmStore, PACKAGES, STAGED, facts_in};
use crate::disk::{self, names, size};
use crate::house::Pruned;
use crate::turns;

/// An unpacked package in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmKept {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The digest of its content: the algorithm, and the digest in hexadecimal.
    pub content: String,
    /// Size on disk in bytes.
    pub size: u64,
}

impl NpmStore {
    /// Lists the packages in the store, by name.
    #[must_use]
    pub fn kept(&self) -> Vec<NpmKept> {
        let packages = self.root().join(PACKAGES);
        let read = |content: String| {
            let place = packages.join(&content);
            let facts = facts_in(&place)?;
            Some(NpmKept { name: facts.name, version: facts.version, size: size(&place), content })
        };
        let mut kept: Vec<NpmKept> = names(&packages).into_iter().filter_map(read).collect();
        kept.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        kept
    }

    /// Protects an environment's modules from removal until the returned file is dropped. Returns `None` if the
    /// environment no longer exists.
    ///
    /// # Errors
    /// When the environment cannot be locked.
    pub fn hold(&self, modules: &Path) -> Result<Option<File>, NpmError> {
        let Some(noted) = modules.parent().map(|dir| dir.join(NOTED)) else { return Ok(None) };
        let held = match File::open(&noted) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            held => held.map_err(NpmError::file(&noted))?,
        };
        held.lock_shared().map_err(NpmError::file(&noted))?;
        Ok(modules.is_dir().then_some(held))
    }

    /// Removes every environment that no run uses, every unpacked package, and the cached registry responses.
    ///
    /// A remaining environment keeps its files, even if they are hard links to those of a removed package. Waits for
    /// processes that add entries, and calls `waits` before it does.
    ///
    /// # Errors
    /// When an entry cannot be removed.
    pub fn prune(&self, waits: &dyn Fn()) -> Result<Pruned, NpmError> {
        let mut pruned = Pruned::default();
        if !self.root().is_dir() {
            return Ok(pruned);
        }
        let _turn = turns::alone(self.root(), waits).map_err(NpmError::file(self.root()))?;
        let (environments, packages) = (self.root().join("environments"), self.root().join(PACKAGES));
        // The exclusive lock excludes all writers, so unfinished entries are the remains of killed processes.
        for (dir, staged) in
            [(self.root(), STAGED), (environments.as_path(), disk::GONE), (packages.as_path(), disk::GONE)]
        {
            pruned.bytes += disk::sweep(dir, staged).map_err(NpmError::file(dir))?;
        }
        for name in names(&environments) {
            let place = environments.join(name);
            // The lock is held during the removal: a process that opens the environment meanwhile waits, and then finds
            // it gone.
            let Ok(noted) = File::open(place.join(NOTED)) else { continue };
            if noted.try_lock().is_ok() {
                remove(&place)?;
                pruned.environments += 1;
            }
        }
        for name in names(&packages) {
            let place = packages.join(name);
            pruned.bytes += size(&place);
            remove(&place)?;
            pruned.wheels += 1;
        }
        for other in ["metadata", "resolutions"] {
            let place = self.root().join(other);
            pruned.bytes += size(&place);
            remove(&place)?;
        }
        Ok(pruned)
    }

    /// Acquires the shared lock for adding entries, which any number of processes can hold.
    pub(super) fn beside_others(&self) -> Result<File, NpmError> {
        fs::create_dir_all(self.root()).map_err(NpmError::file(self.root()))?;
        turns::beside_others(self.root()).map_err(NpmError::file(self.root()))
    }
}

fn remove(place: &Path) -> Result<(), NpmError> {
    disk::remove(place).map_err(NpmError::file(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_is_pruned() {
        let root = tempfile::tempdir().expect("a directory");
        let left = [".new-x", ".gone-x/whole", "environments/.gone-x/whole", "packages/.gone-x/whole"];
        let left = left.map(|name| root.path().join(name));
        for dir in &left {
            fs::create_dir_all(dir).expect("a directory");
            fs::write(dir.join("file"), "1").expect("a file");
        }
        let pruned = NpmStore::at(root.path()).prune(&|| ()).expect("that it is pruned");
        assert_eq!(pruned, Pruned { bytes: 4, ..Pruned::default() });
        for dir in &left {
            assert!(!dir.exists(), "{}", dir.display());
        }
    }
}

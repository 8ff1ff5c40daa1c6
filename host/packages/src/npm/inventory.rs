//! Listing and pruning of stored npm packages.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::environment::RECORD_FILE;
use super::error::NpmError;
use super::store::{NpmStore, PACKAGES, STAGING_PREFIX, read_properties};
use crate::dir_lock;
use crate::disk::{self, names, size};
use crate::package_store::PruneReport;

/// An unpacked package in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredNpmPackage {
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
    pub fn entries(&self) -> Vec<StoredNpmPackage> {
        let packages = self.root().join(PACKAGES);
        let read = |content: String| {
            let entry_dir = packages.join(&content);
            let properties = read_properties(&entry_dir)?;
            Some(StoredNpmPackage {
                name: properties.name,
                version: properties.version,
                size: size(&entry_dir),
                content,
            })
        };
        let mut entries: Vec<StoredNpmPackage> = names(&packages).into_iter().filter_map(read).collect();
        entries.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        entries
    }

    /// Protects an environment's modules from removal until the returned file is dropped. Returns `None` if the
    /// environment no longer exists.
    ///
    /// # Errors
    /// When the environment cannot be locked.
    pub fn lock_environment(&self, modules: &Path) -> Result<Option<File>, NpmError> {
        let Some(record) = modules.parent().map(|dir| dir.join(RECORD_FILE)) else { return Ok(None) };
        let held = match File::open(&record) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            held => held.map_err(NpmError::file(&record))?,
        };
        held.lock_shared().map_err(NpmError::file(&record))?;
        Ok(modules.is_dir().then_some(held))
    }

    /// Removes every environment that no run uses, every unpacked package, and the cached registry responses.
    ///
    /// A remaining environment keeps its files, even if they are hard links to those of a removed package. Waits for
    /// processes that add entries, and calls `on_wait` before it does.
    ///
    /// # Errors
    /// When an entry cannot be removed.
    pub fn prune(&self, on_wait: &dyn Fn()) -> Result<PruneReport, NpmError> {
        let mut pruned = PruneReport::default();
        if !self.root().is_dir() {
            return Ok(pruned);
        }
        let _guard = dir_lock::acquire_exclusive_lock(self.root(), on_wait).map_err(NpmError::file(self.root()))?;
        let (environments, packages) = (self.root().join("environments"), self.root().join(PACKAGES));
        // The exclusive lock excludes all writers, so unfinished entries are the remains of killed processes.
        for (dir, staged) in [
            (self.root(), STAGING_PREFIX),
            (environments.as_path(), disk::TRASH_PREFIX),
            (packages.as_path(), disk::TRASH_PREFIX),
        ] {
            pruned.bytes += disk::sweep(dir, staged).map_err(NpmError::file(dir))?;
        }
        for name in names(&environments) {
            let entry_dir = environments.join(name);
            // The lock is held during the removal: a process that opens the environment meanwhile waits, and then finds
            // it gone.
            let Ok(record) = File::open(entry_dir.join(RECORD_FILE)) else { continue };
            if record.try_lock().is_ok() {
                remove(&entry_dir)?;
                pruned.environments += 1;
            }
        }
        for name in names(&packages) {
            let entry_dir = packages.join(name);
            pruned.bytes += size(&entry_dir);
            remove(&entry_dir)?;
            pruned.wheels += 1;
        }
        for other in ["metadata", "resolutions"] {
            let entry_dir = self.root().join(other);
            pruned.bytes += size(&entry_dir);
            remove(&entry_dir)?;
        }
        Ok(pruned)
    }

    /// Acquires the shared lock for adding entries, which any number of processes can hold.
    pub(super) fn acquire_shared_lock(&self) -> Result<File, NpmError> {
        fs::create_dir_all(self.root()).map_err(NpmError::file(self.root()))?;
        dir_lock::acquire_shared_lock(self.root()).map_err(NpmError::file(self.root()))
    }
}

fn remove(entry_dir: &Path) -> Result<(), NpmError> {
    disk::remove(entry_dir).map_err(NpmError::file(entry_dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prunes_leftovers_of_killed_processes() {
        let root = tempfile::tempdir().expect("a directory");
        let leftovers = [".new-x", ".gone-x/whole", "environments/.gone-x/whole", "packages/.gone-x/whole"];
        let leftovers = leftovers.map(|name| root.path().join(name));
        for dir in &leftovers {
            fs::create_dir_all(dir).expect("a directory");
            fs::write(dir.join("file"), "1").expect("a file");
        }
        let pruned = NpmStore::at(root.path()).prune(&|| ()).expect("the store is pruned");
        assert_eq!(pruned, PruneReport { bytes: 4, ..PruneReport::default() });
        for dir in &leftovers {
            assert!(!dir.exists(), "{}", dir.display());
        }
    }
}

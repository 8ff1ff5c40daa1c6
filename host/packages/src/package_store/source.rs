//! Source distributions, unpacked once for building.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::Builder;

use super::{PackageStore, StoreError, tree};
use crate::dir_lock;
use crate::disk::{self, names, size};
use crate::index::Index;
use crate::source::Sdist;
use crate::unpack::{UnpackLimits, tarball};
use codebox_core::Silent;

/// File beside the unpacked tree that holds the archive's file name.
pub(super) const ARCHIVE_NAME_FILE: &str = "source.txt";

/// Lock file held during a build.
const BUILD_LOCK_FILE: &str = "building";

/// Directory of the unpacked tree.
const TREE_DIR: &str = "tree";

/// Maximum total size in bytes of all source distributions: a resolution considers many versions, and only one is
/// built.
const MAX_SOURCES_SIZE: u64 = 1 << 30;

/// An unpacked source distribution. It cannot be pruned while this value lives.
#[derive(Debug)]
pub(crate) struct UnpackedSdist {
    /// The directory with its files. Unpacking does not run any of their code.
    pub(crate) tree: PathBuf,
    /// Lock that protects the source distribution from pruning.
    #[expect(dead_code, reason = "the open file is the lock")]
    held: File,
}

impl UnpackedSdist {
    /// Acquires the build lock of the source distribution. Released when the returned file is dropped. Calls `on_wait`
    /// once before blocking if the lock is held elsewhere.
    ///
    /// # Errors
    /// When the lock file cannot be opened or locked.
    pub(crate) fn acquire_build_lock(&self, on_wait: &dyn Fn()) -> Result<File, StoreError> {
        let path = self.tree.with_file_name(BUILD_LOCK_FILE);
        let file = File::open(&path).map_err(StoreError::io("open", &path))?;
        dir_lock::lock_exclusive(file, on_wait).map_err(StoreError::io("lock", &path))
    }
}

impl PackageStore {
    fn source_dir(&self, sdist: &Sdist) -> PathBuf {
        self.root.join("sources").join(&sdist.0.sha256)
    }

    /// Returns a source distribution, if it is unpacked in the store under its own name and version. The name that a
    /// caller gives to a content is not trusted: an index has confirmed the content only under the stored name.
    ///
    /// # Errors
    /// When the stored files cannot be opened or locked.
    pub(crate) fn unpacked(&self, sdist: &Sdist) -> Result<Option<UnpackedSdist>, StoreError> {
        let file = fs::read_to_string(self.source_dir(sdist).join(ARCHIVE_NAME_FILE)).unwrap_or_default();
        if sdist.matches_file_name(&file) { self.unpacked_by_hash(sdist) } else { Ok(None) }
    }

    /// Returns a source distribution by its content, regardless of its name.
    fn unpacked_by_hash(&self, sdist: &Sdist) -> Result<Option<UnpackedSdist>, StoreError> {
        let entry_dir = self.source_dir(sdist);
        let held = super::open_locked(&entry_dir, ARCHIVE_NAME_FILE)?;
        Ok(held
            .map(|held| UnpackedSdist { tree: entry_dir.join(TREE_DIR), held })
            .filter(|unpacked| unpacked.tree.is_dir()))
    }

    /// Fetches and unpacks a source distribution, if it is not in the store yet.
    ///
    /// # Errors
    /// When it cannot be fetched, or is refused by the same checks as wheels.
    pub(crate) async fn source(&self, sdist: &Sdist, index: &Index<'_>) -> Result<UnpackedSdist, StoreError> {
        if let Some(unpacked) = self.unpacked(sdist)? {
            return Ok(unpacked);
        }
        let _guard = self.acquire_shared_lock()?;
        if let Some(unpacked) = self.unpacked(sdist)? {
            return Ok(unpacked);
        }
        let file = &sdist.0.file;
        let refused = |reason: &str| StoreError::Source { file: file.clone(), reason: reason.to_owned() };
        if !file.ends_with(".tar.gz") {
            return Err(refused("only .tar.gz source distributions are supported"));
        }
        if !sdist.matches_file_name(file) {
            return Err(refused("its file name does not match the package and version"));
        }
        let parent_dir = self.root.join("sources");
        tree::create_private_dir(&parent_dir).map_err(StoreError::io("create", &parent_dir))?;
        let staged = Builder::new().prefix(".source-").tempdir_in(&parent_dir);
        let staged = staged.map_err(StoreError::io("create a directory in", &parent_dir))?;
        let archive = staged.path().join("source.tar.gz");
        index.download_source(sdist, &archive, &Silent).await?;
        let ready = staged.path().join("ready");
        unpack(file, &archive, &ready)?;
        let entry_dir = self.source_dir(sdist);
        tree::rename_into_place(&ready, &entry_dir).map_err(StoreError::io("write", &entry_dir))?;
        let not_found = || StoreError::io("open", &entry_dir)(std::io::ErrorKind::NotFound.into());
        // The index has just confirmed that this content is the requested file, whatever other names it has.
        let unpacked = self.unpacked_by_hash(sdist)?.ok_or_else(not_found)?;
        self.evict_sources(MAX_SOURCES_SIZE)?;
        Ok(unpacked)
    }

    /// Removes unused source distributions, the oldest first, until the total size is at most `max_bytes` bytes.
    fn evict_sources(&self, max_bytes: u64) -> Result<(), StoreError> {
        let parent_dir = self.root.join("sources");
        let mut all: Vec<(SystemTime, PathBuf, u64)> = names(&parent_dir)
            .into_iter()
            .filter_map(|name| {
                let entry_dir = parent_dir.join(name);
                let modified_at =
                    fs::metadata(entry_dir.join(ARCHIVE_NAME_FILE)).and_then(|meta| meta.modified()).ok()?;
                let size = size(&entry_dir);
                Some((modified_at, entry_dir, size))
            })
            .collect();
        all.sort();
        let mut total_bytes: u64 = all.iter().map(|(.., size)| size).sum();
        for (_, entry_dir, size) in all {
            if total_bytes <= max_bytes {
                break;
            }
            let free = File::open(entry_dir.join(ARCHIVE_NAME_FILE)).ok().filter(|file| file.try_lock().is_ok());
            if free.is_some() {
                disk::remove(&entry_dir).map_err(StoreError::io("remove", &entry_dir))?;
                total_bytes -= size;
            }
        }
        Ok(())
    }
}

/// Unpacks a verified source distribution.
fn unpack(name: &str, archive: &Path, ready: &Path) -> Result<(), StoreError> {
    tree::create_private_dir(ready).map_err(StoreError::io("create", ready))?;
    let tree_dir = ready.join(TREE_DIR);
    let open = File::open(archive).map_err(StoreError::io("open", archive))?;
    tarball::unpack(&UnpackLimits::default(), name, open, &tree_dir)
        .map_err(|source| StoreError::Unpack { wheel: name.to_owned(), source })?;
    tree::make_dirs_readable(&tree_dir).map_err(StoreError::io("set permissions of", &tree_dir))?;
    let written =
        fs::write(ready.join(BUILD_LOCK_FILE), "").and_then(|()| fs::write(ready.join(ARCHIVE_NAME_FILE), name));
    written.map_err(StoreError::io("write", ready))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::Wheel;

    #[test]
    fn evicts_oldest_unlocked_sources() {
        let root = tempfile::tempdir().expect("a directory");
        let store = PackageStore::at(root.path().to_owned());
        let parent_dir = root.path().join("sources");
        for (age, name) in [(4, "held"), (1, "newest"), (3, "oldest"), (2, "older")] {
            let entry_dir = parent_dir.join(name);
            fs::create_dir_all(entry_dir.join(TREE_DIR)).expect("a directory");
            fs::write(entry_dir.join(TREE_DIR).join("file"), [0; 1000]).expect("a file");
            let named = File::create(entry_dir.join(ARCHIVE_NAME_FILE)).expect("a file");
            let modified_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
            named.set_modified(modified_at).expect("a time");
        }
        let held = File::open(parent_dir.join("held").join(ARCHIVE_NAME_FILE)).expect("a file");
        held.lock_shared().expect("a lock");
        let remaining_after = |max_bytes: u64| {
            store.evict_sources(max_bytes).expect("sources are evicted");
            names(&parent_dir)
        };
        assert_eq!(remaining_after(4000), ["held", "newest", "older", "oldest"]);
        assert_eq!(remaining_after(3999), ["held", "newest", "older"]);
        assert_eq!(remaining_after(2000), ["held", "newest"]);
        assert_eq!(remaining_after(0), ["held"]);
        drop(held);
        assert_eq!(remaining_after(0), [""; 0]);
    }

    #[test]
    fn finds_unpacked_source_only_under_its_own_name() {
        let sdist = |name: &str, version: &str| {
            Sdist(Wheel {
                name: name.to_owned(),
                version: version.to_owned(),
                file: format!("{name}-{version}.tar.gz"),
                url: String::new(),
                sha256: "ab".repeat(32),
                size: None,
            })
        };
        let root = tempfile::tempdir().expect("a directory");
        let store = PackageStore::at(root.path().to_owned());
        let entry_dir = store.source_dir(&sdist("a-b", "1"));
        fs::create_dir_all(entry_dir.join(TREE_DIR)).expect("a directory");
        let is_found =
            |name: &str, version: &str| store.unpacked(&sdist(name, version)).expect("the entry is readable").is_some();
        assert!(!is_found("a-b", "1"), "the archive name is missing");
        fs::write(entry_dir.join(ARCHIVE_NAME_FILE), "A_b-1.0.tar.gz").expect("a file");
        assert!(is_found("a-b", "1") && is_found("a.b", "1.0.0"));
        for (name, version) in [("c", "1"), ("a-b", "2"), ("a", "1"), ("a-b-1", "1"), ("", "")] {
            assert!(!is_found(name, version), "{name} {version}");
        }
    }
}

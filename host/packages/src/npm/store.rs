//! Store of npm packages on disk, keyed by their content.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::{Builder, TempDir};

use super::error::NpmError;
use super::integrity::Integrity;
use super::native::Native;

/// Store of registry responses, unpacked packages, assembled environments and resolutions, below one directory.
///
/// Every entry is either complete or absent, so any number of processes can use the store at once, and unused entries
/// can be removed at any time.
#[derive(Debug, Clone)]
pub struct NpmStore {
    root: PathBuf,
}

/// Directory of a package's files.
const TREE_DIR: &str = "tree";

/// File beside the tree that holds the package's [`PackageProperties`].
const PROPERTIES_FILE: &str = "facts.json";

/// Directory of unpacked packages.
pub(super) const PACKAGES: &str = "packages";

/// Name prefix of unfinished entries.
pub(super) const STAGING_PREFIX: &str = ".new-";

/// Properties of a package that were determined when it was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackageProperties {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) bytes: u64,
    pub(super) native: Option<Native>,
}

impl NpmStore {
    /// Creates a store rooted at this directory. The directory is created with the first entry.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of the cached registry response for a URL.
    pub(super) fn metadata(&self, url: &str) -> PathBuf {
        self.root.join("metadata").join(sha256_hex(url))
    }

    /// Returns the path of the cached resolution for a set of specs and settings.
    pub(super) fn resolution(&self, query: &str) -> PathBuf {
        self.root.join("resolutions").join(sha256_hex(query))
    }

    /// Returns the directory of the environment for a tree.
    pub(super) fn environment(&self, digest: &str) -> PathBuf {
        self.root.join("environments").join(digest)
    }

    /// Returns the directory with a stored package's files, and its properties.
    pub(super) fn package(&self, integrity: &Integrity) -> Option<(PathBuf, PackageProperties)> {
        let dir = self.package_dir(integrity);
        let properties = read_properties(&dir)?;
        Some((dir.join(TREE_DIR), properties))
    }

    fn package_dir(&self, integrity: &Integrity) -> PathBuf {
        self.root.join(PACKAGES).join(integrity.file_name())
    }

    /// Stores the package that `unpack` unpacks.
    pub(super) fn store_package(
        &self,
        integrity: &Integrity,
        unpack: impl FnOnce(&Path) -> Result<PackageProperties, NpmError>,
    ) -> Result<(), NpmError> {
        let staged = self.staged()?;
        let properties = unpack(&staged.path().join(TREE_DIR))?;
        let text = serde_json::to_vec(&properties).map_err(|error| NpmError::file(staged.path())(error.into()))?;
        fs::write(staged.path().join(PROPERTIES_FILE), text).map_err(NpmError::file(staged.path()))?;
        let entry_dir = self.package_dir(integrity);
        if entry_dir.is_dir() && read_properties(&entry_dir).is_none() {
            // An entry without readable properties blocks the path.
            fs::remove_dir_all(&entry_dir).map_err(NpmError::file(&entry_dir))?;
        }
        self.commit(staged, &entry_dir)
    }

    /// Creates a staging directory, which is removed unless it is [committed](Self::commit).
    pub(super) fn staged(&self) -> Result<TempDir, NpmError> {
        fs::create_dir_all(&self.root).map_err(NpmError::file(&self.root))?;
        Builder::new().prefix(STAGING_PREFIX).tempdir_in(&self.root).map_err(NpmError::file(&self.root))
    }

    /// Renames a staging directory to its final path, unless another process has created that path first.
    pub(super) fn commit(&self, staged: TempDir, name: &Path) -> Result<(), NpmError> {
        sync_files(staged.path()).map_err(NpmError::file(staged.path()))?;
        make_readable(staged.path()).map_err(NpmError::file(staged.path()))?;
        if let Some(parent) = name.parent() {
            fs::create_dir_all(parent).map_err(NpmError::file(parent))?;
        }
        match fs::rename(staged.path(), name) {
            Ok(()) => drop(staged.keep()),
            Err(_) if name.is_dir() => {}
            Err(source) => return Err(NpmError::File { path: name.to_owned(), source }),
        }
        Ok(())
    }

    /// Writes a file atomically.
    pub(super) fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let parent = file.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let mut written = Builder::new().prefix(STAGING_PREFIX).tempfile_in(parent)?;
        written.write_all(bytes)?;
        written.persist(file)?;
        Ok(())
    }
}

pub(super) fn read_properties(package: &Path) -> Option<PackageProperties> {
    serde_json::from_slice(&fs::read(package.join(PROPERTIES_FILE)).ok()?).ok()
}

fn sha256_hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Syncs the files in a directory to the disk before it is renamed: after a power failure a name must not refer to
/// files without their bytes. On Linux, one call syncs all of them.
#[cfg(target_os = "linux")]
fn sync_files(dir: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn sync_files(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_files(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    Ok(())
}

/// Makes a directory readable for all users: a temporary directory is private to its owner, but a container's user has
/// to read this one.
#[cfg(unix)]
fn make_readable(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_readable(_dir: &Path) -> io::Result<()> {
    Ok(())
}

//! What is kept on disk, by content.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::{Builder, TempDir};

use super::error::NpmError;
use super::integrity::Integrity;
use super::native::Native;

/// Answers of registries, unpacked packages, directories put together of them, and what was resolved, below one directory.
///
/// Everything in it is whole or not there, so that any number of processes can use it at once, and any of it can be removed
/// while nobody uses it.
#[derive(Debug, Clone)]
pub struct NpmStore {
    root: PathBuf,
}

/// The directory below which everything is that a package holds.
const TREE: &str = "tree";

/// What is written beside it.
const FACTS: &str = "facts.json";

/// The directory of unpacked packages.
pub(super) const PACKAGES: &str = "packages";

/// What the names begin with of what is not whole yet.
pub(super) const STAGED: &str = ".new-";

/// What was found out about a package when it was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) bytes: u64,
    pub(super) native: Option<Native>,
}

impl NpmStore {
    /// A store below this directory, which is made when something is kept.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The file for what a registry says at an address.
    pub(super) fn metadata(&self, url: &str) -> PathBuf {
        self.root.join("metadata").join(hex(url))
    }

    /// The file for what a question was resolved to.
    pub(super) fn resolution(&self, question: &str) -> PathBuf {
        self.root.join("resolutions").join(hex(question))
    }

    /// The directory of what is put together of a tree.
    pub(super) fn environment(&self, digest: &str) -> PathBuf {
        self.root.join("environments").join(digest)
    }

    /// The files of a package that is here, and what is known of it.
    pub(super) fn package(&self, integrity: &Integrity) -> Option<(PathBuf, Facts)> {
        let dir = self.package_dir(integrity);
        let facts = facts_in(&dir)?;
        Some((dir.join(TREE), facts))
    }

    fn package_dir(&self, integrity: &Integrity) -> PathBuf {
        self.root.join(PACKAGES).join(integrity.file_name())
    }

    /// Keeps a package that `unpack` unpacks.
    pub(super) fn keep_package(
        &self,
        integrity: &Integrity,
        unpack: impl FnOnce(&Path) -> Result<Facts, NpmError>,
    ) -> Result<(), NpmError> {
        let staged = self.staged()?;
        let facts = unpack(&staged.path().join(TREE))?;
        let text = serde_json::to_vec(&facts).map_err(|error| NpmError::file(staged.path())(error.into()))?;
        fs::write(staged.path().join(FACTS), text).map_err(NpmError::file(staged.path()))?;
        let place = self.package_dir(integrity);
        if place.is_dir() && facts_in(&place).is_none() {
            // One that nobody can read is in the way.
            fs::remove_dir_all(&place).map_err(NpmError::file(&place))?;
        }
        self.settle(staged, &place)
    }

    /// A directory beside everything, removed unless it is [settled](Self::settle).
    pub(super) fn staged(&self) -> Result<TempDir, NpmError> {
        fs::create_dir_all(&self.root).map_err(NpmError::file(&self.root))?;
        Builder::new().prefix(STAGED).tempdir_in(&self.root).map_err(NpmError::file(&self.root))
    }

    /// Gives a staged directory its name, unless another process was faster.
    pub(super) fn settle(&self, staged: TempDir, name: &Path) -> Result<(), NpmError> {
        flush(staged.path()).map_err(NpmError::file(staged.path()))?;
        open_to_all(staged.path()).map_err(NpmError::file(staged.path()))?;
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

    /// Writes a file as a whole.
    pub(super) fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        let parent = file.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let mut written = Builder::new().prefix(STAGED).tempfile_in(parent)?;
        written.write_all(bytes)?;
        written.persist(file)?;
        Ok(())
    }
}

pub(super) fn facts_in(package: &Path) -> Option<Facts> {
    serde_json::from_slice(&fs::read(package.join(FACTS)).ok()?).ok()
}

fn hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is in a directory reaches the disk before it gets its name: after a power cut a name must not stand for files without
/// their bytes. One call for all of them where there is one.
#[cfg(target_os = "linux")]
fn flush(dir: &Path) -> io::Result<()> {
    rustix::fs::syncfs(File::open(dir)?)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn flush(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => flush(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    Ok(())
}

/// A temporary directory is its owner's alone; a container's user has to read this one.
#[cfg(unix)]
fn open_to_all(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

#[cfg(not(unix))]
fn open_to_all(_dir: &Path) -> io::Result<()> {
    Ok(())
}

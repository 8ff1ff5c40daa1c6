//! Saved states of sessions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use codebox_core::{ResultKind, RunnerError};
use codebox_files::{copy_tree, link_or_copy, open_inner_dir, open_last_dir};

use super::SessionDir;

/// Saved state of a session, in a directory that is removed when the last copy of this value is dropped, unless it is kept.
#[derive(Clone)]
pub struct Checkpoint {
    name: String,
    saved: Arc<Saved>,
}

struct Saved {
    dir: PathBuf,
    /// Memory image that the saved state extends.
    image: String,
    /// The private directory that contains the checkpoint; `None` if the checkpoint is kept.
    owner: Option<Arc<SessionDir>>,
    /// True if other values may name the directory.
    is_shared: AtomicBool,
}

impl Checkpoint {
    pub(super) fn new(name: String, dir: PathBuf, image: String, owner: Arc<SessionDir>) -> Self {
        Self { name, saved: Arc::new(Saved { dir, image, owner: Some(owner), is_shared: AtomicBool::new(false) }) }
    }

    pub(super) fn renamed(&self, name: String) -> Self {
        Self { name, saved: Arc::clone(&self.saved) }
    }

    /// Returns a checkpoint in a directory that is kept.
    pub fn kept(name: impl Into<String>, dir: impl Into<PathBuf>, image: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            saved: Arc::new(Saved {
                dir: dir.into(),
                image: image.into(),
                owner: None,
                is_shared: AtomicBool::new(false),
            }),
        }
    }

    /// Moves the checkpoint to a new directory, where it is kept. A checkpoint that is kept already stays where it is.
    pub(super) fn moved_to(self, dir: &Path) -> Result<Self, RunnerError> {
        if self.saved.owner.is_none() {
            return Ok(self);
        }
        let failed = |error: io::Error| {
            let line = format!("cannot move the checkpoint to {}: {error}", dir.display());
            RunnerError::new(ResultKind::InternalError, line)
        };
        match self.saved.is_shared.load(Ordering::Relaxed) {
            true => copy(&self.saved.dir, dir).map_err(failed)?,
            false => fs::rename(&self.saved.dir, dir).map_err(failed)?,
        }
        Ok(Self::kept(self.name, dir, self.saved.image.clone()))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the memory image that the state extends.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.saved.image
    }

    pub(super) fn is_kept(&self) -> bool {
        self.saved.owner.is_none()
    }

    /// Returns true if both are the same saved state.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.saved.dir == other.saved.dir
    }

    /// Declares that other values may name the directory, which must not be moved.
    pub(super) fn shared(self) -> Self {
        self.saved.is_shared.store(true, Ordering::Relaxed);
        self
    }

    /// Returns the directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.saved.dir
    }
}

/// Copies a checkpoint, whose files are shared. Follows no links, which the process that wrote it may have put there.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let source = open_last_dir(from)?;
    fs::create_dir(to)?;
    let copied = open_last_dir(to)?;
    for entry in source.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().ok_or(io::ErrorKind::InvalidData)?;
        if entry.file_type()?.is_dir() {
            copied.create_dir(name)?;
            copy_tree(&open_inner_dir(&source, name)?, &open_inner_dir(&copied, name)?, u64::MAX)?;
        } else {
            link_or_copy(&source, name, &copied, name)?;
        }
    }
    Ok(())
}

impl Drop for Saved {
    fn drop(&mut self) {
        if self.owner.is_some() {
            // Remains are removed with the private directory of the process.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// Returns a name that no other checkpoint of this process has.
pub(super) fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

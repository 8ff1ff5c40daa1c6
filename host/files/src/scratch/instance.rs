//! The private directories of one instance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::{MAX_IDLE, Scratch};
use crate::inputs::write_input_file;
use crate::open::open_dir;

/// The private directories of one instance. The process that created them removes them with their content on drop.
pub struct InstanceScratch {
    /// The process's scratch directory, or `None` in a process to which the directories are leased.
    pub(super) process: Option<Arc<Scratch>>,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) dir: Option<Dir>,
    pub(super) dirty: bool,
}

impl InstanceScratch {
    /// Opens directories that another process created at `path`, keeps and removes.
    ///
    /// # Errors
    /// The system's error if the directories do not exist.
    pub fn open_leased(path: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
        Ok(Self { process: None, name: String::new(), path: path.to_owned(), dir: Some(dir), dirty: true })
    }

    /// Returns the host path of the parent of all directories.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.path
    }

    /// Returns the host path of one of the directories or files.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Marks the directories as written to, so that they are not reused.
    pub fn mark_dirty(&mut self) {
        self.dirty = true;
    }

    /// Opens a handle on one of the directories for writing to it.
    ///
    /// # Errors
    /// The system's errors. A link counts as an error.
    pub fn open(&mut self, name: &str) -> io::Result<Dir> {
        self.dirty = true;
        open_dir(self.dir()?, name.as_ref())
    }

    /// Creates another directory beside `work` and `tmp`.
    ///
    /// # Errors
    /// The system's error if the name exists.
    pub fn add(&mut self, name: &str) -> io::Result<()> {
        self.dirty = true;
        self.dir()?.create_dir(name)
    }

    /// Writes a file beside `work` and `tmp`, replacing an existing one.
    ///
    /// # Errors
    /// The system's errors.
    pub fn put(&mut self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        self.dirty = true;
        write_input_file(self.dir()?, &[name], content, false)?;
        Ok(self.path(name))
    }

    /// Creates a mount point and its parent directories.
    ///
    /// # Errors
    /// The system's errors.
    pub fn create_mount_point(&mut self, path: &Path) -> io::Result<()> {
        self.dirty = true;
        self.dir()?.create_dir_all(path)
    }

    fn dir(&self) -> io::Result<&Dir> {
        self.dir.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Drop for InstanceScratch {
    fn drop(&mut self) {
        let (Some(dir), Some(process)) = (self.dir.take(), &self.process) else { return };
        let mut idle = process.idle();
        if !self.dirty && idle.len() < MAX_IDLE {
            idle.push((std::mem::take(&mut self.name), dir));
            return;
        }
        drop(idle);
        process.remove(&self.name, &dir);
    }
}

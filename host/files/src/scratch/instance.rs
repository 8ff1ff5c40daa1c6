//! The directories of one instance.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::{MAX_IDLE, Scratch};
use crate::inputs::put_file;
use crate::open::open_dir;

/// The private directories of one instance; removed with all they hold when the value is dropped, by the process that
/// made them.
pub struct InstanceScratch {
    /// Nothing in a process that they are lent to.
    pub(super) process: Option<Arc<Scratch>>,
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) dir: Option<Dir>,
    pub(super) touched: bool,
}

impl InstanceScratch {
    /// Directories that another process made at `path`, keeps, and removes.
    ///
    /// # Errors
    /// The system's, when they are not there.
    pub fn lent(path: &Path) -> io::Result<Self> {
        let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
        Ok(Self { process: None, name: String::new(), path: path.to_owned(), dir: Some(dir), touched: true })
    }

    /// The host's path to all of them.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.path
    }

    /// The host's path to one of the directories or files.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Says that something may have been put into the directories, so that they are not used again.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// A handle on one of the directories, for putting something there.
    ///
    /// # Errors
    /// The system's; a link is no directory.
    pub fn open(&mut self, name: &str) -> io::Result<Dir> {
        self.touched = true;
        open_dir(self.dir()?, name.as_ref())
    }

    /// Makes one more directory, beside `work` and `tmp`.
    ///
    /// # Errors
    /// The system's, when something stands there.
    pub fn add(&mut self, name: &str) -> io::Result<()> {
        self.touched = true;
        self.dir()?.create_dir(name)
    }

    /// Makes one more file, beside `work` and `tmp`; one that stands there is replaced.
    ///
    /// # Errors
    /// The system's.
    pub fn put(&mut self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        self.touched = true;
        put_file(self.dir()?, &[name], content)?;
        Ok(self.path(name))
    }

    /// Makes a directory, and those that lead to it, for something to be seen at.
    ///
    /// # Errors
    /// The system's.
    pub fn make_point(&mut self, path: &Path) -> io::Result<()> {
        self.touched = true;
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
        if !self.touched && idle.len() < MAX_IDLE {
            idle.push((std::mem::take(&mut self.name), dir));
            return;
        }
        drop(idle);
        process.remove(&self.name, &dir);
    }
}

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::mounts;

/// What admission asks of the process it runs in, so that tests and servers can answer for themselves.
pub trait Surroundings: Send + Sync {
    /// The value of an environment variable; `None` if it is not set.
    fn env_var(&self, name: &str) -> Option<OsString>;

    /// The directory that relative paths start from.
    ///
    /// # Errors
    /// When it is gone or cannot be named.
    fn current_dir(&self) -> io::Result<PathBuf>;

    /// Where file systems are mounted; none on systems that have no such list.
    ///
    /// # Errors
    /// When the list cannot be read; directories are then not granted.
    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        mounts::of_this_machine()
    }

    /// Returns true if a text without a name can be Python; asked about one that has a line as JavaScript has them. Without
    /// a parser any can.
    fn is_python(&self, _text: &str) -> bool {
        true
    }
}

/// This process's own environment and working directory, without a parser.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Surroundings for Process {
    fn env_var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }
}

/// `path` from the root on; links and `..` stay.
pub(super) fn absolute(path: &Path, surroundings: &dyn Surroundings) -> io::Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    Ok(surroundings.current_dir()?.join(path))
}

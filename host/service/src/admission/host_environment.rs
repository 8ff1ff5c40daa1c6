use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::mounts;

/// Environment of the process that admission runs in. Tests and servers supply their own.
pub trait HostEnvironment: Send + Sync {
    /// Returns the value of an environment variable; `None` if it is not set.
    fn env_var(&self, name: &str) -> Option<OsString>;

    /// Returns the directory that relative paths start from.
    ///
    /// # Errors
    /// Returns an error if the directory no longer exists or its path cannot be read.
    fn current_dir(&self) -> io::Result<PathBuf>;

    /// Returns the mount points of this machine; empty on systems without such a list.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read. Admission then grants no directories.
    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        mounts::of_this_machine()
    }

    /// Returns true if a text without a file name may be Python. It is called only for a text with a line typical of
    /// JavaScript. Without a parser it always returns true.
    fn is_python(&self, _text: &str) -> bool {
        true
    }
}

/// Environment and working directory of this process, without a parser.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl HostEnvironment for Process {
    fn env_var(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        std::env::current_dir()
    }
}

/// Makes `path` absolute; links and `..` are kept.
pub(super) fn absolute(path: &Path, host_environment: &dyn HostEnvironment) -> io::Result<PathBuf> {
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    Ok(host_environment.current_dir()?.join(path))
}

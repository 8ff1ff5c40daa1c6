//! The part of `uv-trampoline-builder` that uv's crates name. It makes executables for Windows, which codebox installs none of.

use std::fmt;
use std::path::{Path, PathBuf};

/// The error of every attempt to make a launcher.
#[derive(Debug)]
pub struct Error;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("codebox makes no launchers for Windows")
    }
}

impl std::error::Error for Error {}

/// Kind of a launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LauncherKind {
    /// It starts a script.
    Script,
    /// It starts a Python interpreter.
    Python,
}

/// Kind of the window that a launcher has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowMode {
    /// A console.
    Console,
    /// No window.
    Windowed,
}

/// A launcher that was found.
#[derive(Debug)]
pub struct Launcher {
    /// Its kind.
    pub kind: LauncherKind,
    /// The interpreter that it starts.
    pub python_path: PathBuf,
    /// The script that it starts.
    pub script_data: Option<Vec<u8>>,
}

impl Launcher {
    /// Finds none.
    pub fn try_from_path(_: &Path) -> Result<Option<Self>, Error> {
        Ok(None)
    }
}

/// Fails.
pub fn windows_script_launcher(_: &str, _: bool, _: impl AsRef<Path>) -> Result<Vec<u8>, Error> {
    Err(Error)
}

/// Fails.
pub fn windows_python_launcher(_: impl AsRef<Path>, _: WindowMode) -> Result<Vec<u8>, Error> {
    Err(Error)
}

//! Pythons that only see what is their own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python without the variables that change how it starts.
pub fn bare(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            command.env_remove(name);
        }
    }
    command
}

/// The Python of a virtual environment.
pub fn python_in(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

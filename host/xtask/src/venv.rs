//! Python commands that are isolated from the environment.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a command for a Python without the variables that change its start.
pub fn clean_command(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the path of a virtual environment's Python.
pub fn python_in(folder: &Path) -> PathBuf {
    if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") }
}

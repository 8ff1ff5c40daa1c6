//! Native Node for the comparison.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::output_of;

/// Node from this machine's `PATH`.
#[derive(Debug, Clone)]
pub struct Node {
    path: PathBuf,
    pub version: String,
}

impl Node {
    /// Finds the executable that `node` starts.
    ///
    /// # Errors
    /// Fails if Node is missing or cannot be run.
    pub fn find() -> Result<Self> {
        // `node` may be a script of a version manager, whose time must not be measured.
        let script = "console.log(process.execPath); console.log(process.versions.node)";
        let stdout = output_of(clean_command(Path::new("node")).args(["-e", script]))?;
        let (path, version) = stdout.trim_end().split_once('\n').context("query node for its own path")?;
        Ok(Self { path: path.into(), version: version.to_owned() })
    }

    /// Returns a command that starts Node as a user would.
    pub fn command(&self) -> Command {
        clean_command(&self.path)
    }
}

/// Returns a command for Node without the variables that change its start.
fn clean_command(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("NODE_") {
            command.env_remove(name);
        }
    }
    command
}

//! The Node that codebox is compared with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::output_of;

/// The Node on this machine's path.
#[derive(Debug, Clone)]
pub struct Node {
    path: PathBuf,
    pub version: String,
}

impl Node {
    /// What `node` starts.
    ///
    /// # Errors
    /// When there is none or it cannot be run.
    pub fn find() -> Result<Self> {
        // `node` may be a script of a version switcher, which must not be timed.
        let ask = "console.log(process.execPath); console.log(process.versions.node)";
        let said = output_of(bare(Path::new("node")).args(["-e", ask]))?;
        let (path, version) = said.trim_end().split_once('\n').context("ask node for its own path")?;
        Ok(Self { path: path.into(), version: version.to_owned() })
    }

    /// A command that starts it as a user would.
    pub fn command(&self) -> Command {
        bare(&self.path)
    }
}

/// A Node without the variables that change how it starts.
fn bare(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("NODE_") {
            command.env_remove(name);
        }
    }
    command
}

//! The native Python that codebox is compared with.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::{Project, output_of};

/// What has to be importable for the row with numpy and pandas.
const DATA: &str = "import numpy, pandas";

/// One Python on this machine.
pub struct Python {
    path: PathBuf,
    pub version: String,
}

impl Python {
    /// The Python at `path`, or the one that `python3` starts.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn find(path: Option<&Path>) -> Result<Self> {
        let asked = path.unwrap_or(Path::new("python3"));
        // `python3` may be a script of a version switcher, which must not be timed.
        let ask = "import platform, sys; print(sys.executable); print(platform.python_version())";
        let said = output_of(bare(asked).args(["-c", ask])).context("find a native Python; name one with --python")?;
        let (path, version) = said.trim_end().split_once('\n').context("ask a native Python for its own path")?;
        Ok(Self { path: path.into(), version: version.to_owned() })
    }

    /// A command that starts it as a user would.
    pub fn command(&self) -> Command {
        bare(&self.path)
    }

    /// This Python if it has numpy and pandas, else an environment below the target directory that gets them.
    ///
    /// # Errors
    /// When there is none and none can be made, for want of network for example.
    pub fn with_data(&self, project: &Project) -> Result<Self> {
        if output_of(self.command().args(["-c", DATA])).is_ok() {
            return Ok(Self { path: self.path.clone(), version: self.version.clone() });
        }
        let own = self.environment(project)?;
        if output_of(own.command().args(["-c", DATA])).is_err() {
            output_of(own.pip().args(["install", "--quiet", "numpy", "pandas"]))?;
            output_of(own.command().args(["-c", DATA]))?;
        }
        Ok(own)
    }

    /// A virtual environment of this Python, with pip, below the target directory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn environment(&self, project: &Project) -> Result<Self> {
        let folder = project.target.join("compare-venv");
        let path = if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") };
        let own = Self { path, version: self.version.clone() };
        if output_of(own.pip().arg("--version")).is_err() {
            output_of(self.command().args(["-m", "venv", "--clear"]).arg(&folder))?;
        }
        Ok(own)
    }

    /// Its package installer.
    pub fn pip(&self) -> Command {
        let mut pip = self.command();
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip
    }
}

/// A Python without the variables that change how it starts.
fn bare(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            command.env_remove(name);
        }
    }
    command
}

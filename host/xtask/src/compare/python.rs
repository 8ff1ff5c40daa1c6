//! Native Python for the comparison.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::{Project, output_of};
use crate::venv::{clean_command, python_in};

/// Imports that the row with numpy and pandas needs.
const DATA: &str = "import numpy, pandas";

/// Python installation on this machine.
#[derive(Debug, Clone)]
pub struct Python {
    path: PathBuf,
    pub version: String,
    pub origin: Origin,
}

/// Origin of a Python's packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A Python that the user named, used as it is.
    Named,
    /// A virtual environment below the target directory.
    Clean,
    /// The Python that `python3` starts, with all code that its site-packages run at startup.
    Machine,
}

impl Python {
    /// Finds the Python at `path`; without a path, a clean environment of the one that `python3` starts, if possible.
    ///
    /// Installed packages may run code at every Python startup and slow it down several times. That time is not
    /// Python's own and would distort the comparison in codebox's favour.
    ///
    /// # Errors
    /// Fails if Python cannot be run.
    pub fn find(path: Option<&Path>, project: &Project) -> Result<Self> {
        let requested = path.unwrap_or(Path::new("python3"));
        // `python3` may be a script of a version manager, whose time must not be measured.
        let script = "import platform, sys; print(sys.executable); print(platform.python_version())";
        let stdout = output_of(clean_command(requested).args(["-c", script]))
            .context("find a native Python; name one with --python")?;
        let (found, version) = stdout.trim_end().split_once('\n').context("query a native Python for its own path")?;
        let origin = if path.is_some() { Origin::Named } else { Origin::Machine };
        let found = Self { path: found.into(), version: version.to_owned(), origin };
        if origin == Origin::Named {
            return Ok(found);
        }
        Ok(found.environment(project).unwrap_or_else(|error| {
            eprintln!("xtask: no clean environment, so the machine's own Python is compared with: {error:#}");
            found
        }))
    }

    /// Returns a command that starts Python as a user would.
    pub fn command(&self) -> Command {
        clean_command(&self.path)
    }

    /// Ensures that numpy and pandas can be imported; only a clean environment gets them installed.
    ///
    /// # Errors
    /// Fails if they are missing and cannot be installed, for example without a network.
    pub fn ensure_data_packages(&self) -> Result<()> {
        let imported = || output_of(self.command().args(["-c", DATA]));
        match (imported(), self.origin) {
            (Ok(_), _) => Ok(()),
            (Err(_), Origin::Clean) => {
                output_of(self.pip().args(["install", "--quiet", "numpy", "pandas"]))?;
                imported().map(drop)
            }
            (Err(error), Origin::Named | Origin::Machine) => Err(error),
        }
    }

    /// Returns a command for pip.
    pub fn pip(&self) -> Command {
        let mut pip = self.command();
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip
    }

    /// Creates a virtual environment of this Python, with only pip, below the target directory.
    fn environment(&self, project: &Project) -> Result<Self> {
        let folder = project.target.join("compare-venv");
        let environment_python =
            Self { path: python_in(&folder), version: self.version.clone(), origin: Origin::Clean };
        let script = "import platform; print(platform.python_version())";
        let is_usable = output_of(environment_python.pip().arg("--version")).is_ok()
            && output_of(environment_python.command().args(["-c", script]))
                .is_ok_and(|found| found.trim_end() == environment_python.version);
        if !is_usable {
            output_of(self.command().args(["-m", "venv", "--clear"]).arg(&folder))?;
            // Older Pythons install setuptools there, which runs code at every startup.
            output_of(environment_python.pip().args(["uninstall", "--quiet", "--yes", "setuptools"]))?;
        }
        Ok(environment_python)
    }
}

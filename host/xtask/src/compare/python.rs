//! The native Python that codebox is compared with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::project::{Project, output_of};
use crate::venv::{bare, python_in};

/// What has to be importable for the row with numpy and pandas.
const DATA: &str = "import numpy, pandas";

/// One Python on this machine.
#[derive(Debug, Clone)]
pub struct Python {
    path: PathBuf,
    pub version: String,
    pub origin: Origin,
}

/// Where a Python's packages come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user named it: it is taken as it is.
    Named,
    /// An environment below the target directory.
    Clean,
    /// What `python3` starts, with whatever its site-packages run at every start.
    Machine,
}

impl Python {
    /// The Python at `path`; or a clean environment of the one that `python3` starts, where one can be made.
    ///
    /// What a machine has installed may run code whenever Python starts, and make it several times slower: that is
    /// not Python's time, and would flatter us.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn find(path: Option<&Path>, project: &Project) -> Result<Self> {
        let asked = path.unwrap_or(Path::new("python3"));
        // `python3` may be a script of a version switcher, which must not be timed.
        let ask = "import platform, sys; print(sys.executable); print(platform.python_version())";
        let said = output_of(bare(asked).args(["-c", ask])).context("find a native Python; name one with --python")?;
        let (found, version) = said.trim_end().split_once('\n').context("ask a native Python for its own path")?;
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

    /// A command that starts it as a user would.
    pub fn command(&self) -> Command {
        bare(&self.path)
    }

    /// Sees to it that numpy and pandas can be imported; only a clean environment gets them installed.
    ///
    /// # Errors
    /// When they are not there and cannot be had, for want of network for example.
    pub fn have_data(&self) -> Result<()> {
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

    /// Its package installer.
    pub fn pip(&self) -> Command {
        let mut pip = self.command();
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip
    }

    /// A virtual environment of this Python, with pip and nothing else, below the target directory.
    fn environment(&self, project: &Project) -> Result<Self> {
        let folder = project.target.join("compare-venv");
        let own = Self { path: python_in(&folder), version: self.version.clone(), origin: Origin::Clean };
        let ask = "import platform; print(platform.python_version())";
        let is_whole = output_of(own.pip().arg("--version")).is_ok()
            && output_of(own.command().args(["-c", ask])).is_ok_and(|found| found.trim_end() == own.version);
        if !is_whole {
            output_of(self.command().args(["-m", "venv", "--clear"]).arg(&folder))?;
            // Older Pythons put it there, and it runs code at every start.
            output_of(own.pip().args(["uninstall", "--quiet", "--yes", "setuptools"]))?;
        }
        Ok(own)
    }
}

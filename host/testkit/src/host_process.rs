//! A host process for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::{Codebox, Kit};

/// Host process in a home of its own with the runtimes of the shared home. It is stopped when the value is dropped.
#[derive(Debug)]
pub struct HostProcess {
    binary: PathBuf,
    home: PathBuf,
}

impl Kit {
    /// Creates `home` and starts a host process in it.
    ///
    /// # Errors
    /// Fails if the home cannot be written or the process does not start.
    pub fn start_host(&self, home: &Path) -> Result<HostProcess> {
        self.share_runtimes(home)?;
        let host = HostProcess { binary: self.binary().to_owned(), home: home.to_owned() };
        let started = host.codebox().args(["host", "start"]).run()?;
        ensure!(started.code == Some(0), "the host process does not start: {}", started.stderr_text());
        Ok(host)
    }

    /// Creates `home` with the runtimes of the shared home.
    ///
    /// # Errors
    /// Fails if the home cannot be written.
    pub fn share_runtimes(&self, home: &Path) -> Result<()> {
        // Earlier versions shared all data.
        if home.join("data").is_symlink() {
            fs::remove_file(home.join("data"))?;
        }
        for shared in ["data/runtimes", "cache/prepared"] {
            let at = home.join(shared);
            fs::create_dir_all(at.parent().unwrap_or(home))?;
            if !at.exists() {
                symlink(self.home().join(shared), at)?;
            }
        }
        // The descriptions of added runtimes are copied, because a host process is replaced when they change.
        let added = self.home().join("data/added");
        if added.is_dir() {
            fs::create_dir_all(home.join("data/added"))?;
            for entry in fs::read_dir(&added)? {
                let entry = entry?;
                fs::copy(entry.path(), home.join("data/added").join(entry.file_name()))?;
            }
        }
        Ok(())
    }
}

impl HostProcess {
    /// Returns a command that the host process serves if it is a run.
    #[must_use]
    pub fn codebox(&self) -> Codebox {
        Codebox::new(&self.binary, &self.home).env("CODEBOX_HOST", "on")
    }

    /// Returns the home.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the state as `codebox host status --json` prints it.
    ///
    /// # Errors
    /// Fails if the command prints no JSON document.
    pub fn status(&self) -> Result<Value> {
        let status = self.codebox().args(["host", "status", "--json"]).run()?;
        serde_json::from_slice(&status.stdout).with_context(|| status.stderr_text())
    }

    /// Returns the number of runs that the host process has accepted.
    ///
    /// # Errors
    /// Fails if there is no host process.
    pub fn runs(&self) -> Result<u64> {
        self.status()?["runs"].as_u64().context("there is no host process")
    }

    /// Returns the number of the process.
    ///
    /// # Errors
    /// Fails if there is no host process.
    pub fn pid(&self) -> Result<i32> {
        let pid = self.status()?["pid"].as_i64().context("there is no host process")?;
        Ok(i32::try_from(pid)?)
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // A test may have ended it.
        let _ = self.codebox().args(["host", "stop"]).run();
    }
}

//! Where codebox keeps things on this machine.

use std::env;
use std::path::{Path, PathBuf};

/// The environment variable that moves everything below one directory.
const HOME: &str = "CODEBOX_HOME";

/// The directories that codebox uses.
///
/// They are the platform's own for data, caches and configuration, or `data`, `cache` and `config` below
/// `CODEBOX_HOME` where that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Installed runtimes, and what became of jobs.
    pub data: PathBuf,
    /// Compiled code, memory images and the private directories of running jobs.
    pub cache: PathBuf,
    /// The user's configuration.
    pub config: PathBuf,
}

/// The platform does not say where a user's files belong.
#[derive(Debug, thiserror::Error)]
#[error("cannot tell where to keep codebox's files: no home directory is known; set {HOME} to a directory")]
pub struct PlacesError;

impl Places {
    /// The places of this process's user and environment.
    ///
    /// # Errors
    /// [`PlacesError`] when neither `CODEBOX_HOME` nor a home directory is known.
    pub fn from_env() -> Result<Self, PlacesError> {
        if let Some(home) = env::var_os(HOME).filter(|home| !home.is_empty()) {
            // A relative home would move with the working directory of each run.
            return Ok(Self::below(&std::path::absolute(&home).map_err(|_| PlacesError)?));
        }
        let dirs = directories::ProjectDirs::from("", "", "codebox").ok_or(PlacesError)?;
        Ok(Self {
            data: dirs.data_dir().to_owned(),
            cache: dirs.cache_dir().to_owned(),
            config: dirs.config_dir().to_owned(),
        })
    }

    /// The places below one directory.
    pub fn below(home: &Path) -> Self {
        Self { data: home.join("data"), cache: home.join("cache"), config: home.join("config") }
    }

    /// Where running jobs have their private directories.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.cache.join("scratch")
    }

    /// What became of accepted jobs.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.data.join("jobs")
    }

    /// What engines of containers are given, and said of themselves.
    pub(crate) fn containers(&self) -> PathBuf {
        self.cache.join("containers")
    }

    /// Programs that codebox carries with it and starts on this machine.
    pub(crate) fn programs(&self) -> PathBuf {
        self.cache.join("programs")
    }

    /// Packages of npm.
    pub(crate) fn npm(&self) -> PathBuf {
        self.cache.join("npm")
    }

    /// The user's configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }
}

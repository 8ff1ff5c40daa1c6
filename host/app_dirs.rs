//! Directories in which codebox keeps its files on this machine.

use std::env;
use std::path::{Path, PathBuf};

use codebox_core::{ResultKind, RunnerError};

/// The environment variable that moves all directories below one.
const HOME: &str = "CODEBOX_HOME";

/// The directories that codebox uses.
///
/// These are the platform's directories for data, caches and configuration, or `data`, `cache` and `config` below
/// `CODEBOX_HOME` if that variable is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppDirs {
    /// Installed runtimes and the journal of jobs.
    pub data: PathBuf,
    /// Compiled code, memory images and the private directories of running jobs.
    pub cache: PathBuf,
    /// The user's configuration.
    pub config: PathBuf,
}

/// Error for a machine on which the directories of user files cannot be determined.
#[derive(Debug, thiserror::Error)]
#[error("cannot determine the data directory: no home directory found; set {HOME} to a directory")]
pub struct AppDirsError;

impl AppDirs {
    /// Determines the directories from this process's user and environment.
    ///
    /// # Errors
    /// [`AppDirsError`] if `CODEBOX_HOME` is not set and the home directory is unknown.
    pub fn from_env() -> Result<Self, AppDirsError> {
        if let Some(home) = env::var_os(HOME).filter(|home| !home.is_empty()) {
            // A relative path would depend on the working directory of each run.
            return Ok(Self::below(&std::path::absolute(&home).map_err(|_| AppDirsError)?));
        }
        let dirs = directories::ProjectDirs::from("", "", "codebox").ok_or(AppDirsError)?;
        Ok(Self {
            data: dirs.data_dir().to_owned(),
            cache: dirs.cache_dir().to_owned(),
            config: dirs.config_dir().to_owned(),
        })
    }

    /// Returns the directories below one parent directory.
    pub fn below(home: &Path) -> Self {
        Self { data: home.join("data"), cache: home.join("cache"), config: home.join("config") }
    }

    /// Returns the directory of the private directories of running jobs.
    #[cfg(any(feature = "wasm", feature = "containers"))]
    pub(crate) fn scratch(&self) -> PathBuf {
        self.cache.join("scratch")
    }

    /// Returns the directory of the journal of accepted jobs.
    #[cfg(feature = "cli")]
    pub(crate) fn jobs(&self) -> PathBuf {
        self.data.join("jobs")
    }

    /// Returns the directory of the cells that were typed.
    #[cfg(feature = "cli")]
    pub(crate) fn history(&self) -> PathBuf {
        self.data.join("history")
    }

    /// Returns the directory of whole outputs, of runs whose output is cut.
    pub(crate) fn outputs(&self) -> PathBuf {
        self.data.join("outputs")
    }

    /// Returns the directory of files that are given to container engines and of cached facts about them.
    #[cfg(feature = "containers")]
    pub(crate) fn containers(&self) -> PathBuf {
        self.cache.join("containers")
    }

    /// Returns the directory of programs that codebox embeds and starts on this machine.
    pub(crate) fn programs(&self) -> PathBuf {
        self.cache.join("programs")
    }

    /// Returns the directory of npm packages.
    #[cfg(feature = "packages")]
    pub(crate) fn npm(&self) -> PathBuf {
        self.cache.join("npm")
    }

    /// Returns the path of the user's configuration file.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }
}

impl From<AppDirsError> for RunnerError {
    fn from(error: AppDirsError) -> Self {
        Self::of(ResultKind::InvalidRequest, &error)
    }
}

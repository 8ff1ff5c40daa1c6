//! Configuration files on this machine.

use std::io;
use std::path::{Path, PathBuf};

use codebox_core::{ResultKind, RunnerError};
use codebox_files::{TrustedOwners, read_config};

use super::{ConfigError, Settings};

/// The largest configuration file, in bytes.
pub(super) const MAX_SETTINGS: u64 = 1 << 20;

/// Error of reading a configuration file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file cannot be read, or another user could change it.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has invalid content.
    #[error(transparent)]
    Bad(#[from] ConfigError),
}

/// Reads the user's configuration file, which sets ceilings. Rejects a file that another user could change.
///
/// # Errors
/// Returns an error if the file exists and cannot be read or used.
pub fn read_user(path: &Path) -> Result<Settings, SettingsError> {
    read(path, TrustedOwners::OwnOrRoot)
}

/// Reads a project's configuration file, which comes with the project and can only narrow the user's settings.
///
/// # Errors
/// Returns an error if the file exists and cannot be read or used.
pub fn read_project(path: &Path) -> Result<Settings, SettingsError> {
    read(path, TrustedOwners::All)
}

fn read(path: &Path, trusted: TrustedOwners) -> Result<Settings, SettingsError> {
    match read_config(path, MAX_SETTINGS, trusted) {
        Ok(Some(text)) => Ok(Settings::parse(&text, path)?),
        Ok(None) => Ok(Settings::default()),
        Err(source) => Err(SettingsError::Unreadable { path: path.to_owned(), source }),
    }
}

impl From<SettingsError> for RunnerError {
    fn from(error: SettingsError) -> Self {
        match error {
            SettingsError::Bad(error) => Self::from(error),
            error @ SettingsError::Unreadable { .. } => {
                let fix = "correct the file, or remove it";
                Self::new(ResultKind::InvalidRequest, error.to_string()).with_fix(fix)
            }
        }
    }
}

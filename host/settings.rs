//! Configuration files on this machine.

use std::io;
use std::path::{Path, PathBuf};

use codebox_files::{Believed, read_config};
use codebox_service::ConfigError;
use codebox_service::config::Settings;

/// The largest configuration file, in bytes.
const MAX_SETTINGS: u64 = 1 << 20;

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
pub(crate) fn read_user(path: &Path) -> Result<Settings, SettingsError> {
    read(path, Believed::OwnOrRoot)
}

/// Reads a project's configuration file, which comes with the project and can only narrow the user's settings.
pub(crate) fn read_project(path: &Path) -> Result<Settings, SettingsError> {
    read(path, Believed::All)
}

fn read(path: &Path, believed: Believed) -> Result<Settings, SettingsError> {
    match read_config(path, MAX_SETTINGS, believed) {
        Ok(Some(text)) => Ok(Settings::parse(&text, path)?),
        Ok(None) => Ok(Settings::default()),
        Err(source) => Err(SettingsError::Unreadable { path: path.to_owned(), source }),
    }
}

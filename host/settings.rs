//! Configuration files as they lie on this machine.

use std::io;
use std::path::{Path, PathBuf};

use codebox_files::{Believed, read_config};
use codebox_service::ConfigError;
use codebox_service::config::Settings;

/// Most bytes of a configuration file.
const MAX_SETTINGS: u64 = 1 << 20;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It cannot be read, or another user could change it.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It says something that cannot be used.
    #[error(transparent)]
    Bad(#[from] ConfigError),
}

/// Reads the user's configuration file, which sets ceilings: no other user may be able to change it.
pub(crate) fn read_user(path: &Path) -> Result<Settings, SettingsError> {
    read(path, Believed::OwnOrRoot)
}

/// Reads a project's configuration file. It can only narrow, and comes with whatever the project is.
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

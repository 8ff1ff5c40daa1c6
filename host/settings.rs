//! Configuration files as they lie on this machine.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use codebox_service::ConfigError;
use codebox_service::config::Settings;

/// Most bytes of a configuration file.
const MAX_SETTINGS: u64 = 1 << 20;

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
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

/// What a configuration file says; nothing where there is none.
pub(crate) fn read(path: &Path) -> Result<Settings, SettingsError> {
    match text_of(path) {
        Ok(Some(text)) => Ok(Settings::parse(&text, path)?),
        Ok(None) => Ok(Settings::default()),
        Err(source) => Err(SettingsError::Unreadable { path: path.to_owned(), source }),
    }
}

/// A configuration file's text, or nothing where there is none.
///
/// A project's file is as hostile as the project: a pipe would never end, and a device neither.
fn text_of(path: &Path) -> io::Result<Option<String>> {
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(io::Error::other("it is not a regular file")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_SETTINGS + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SETTINGS {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(Some(text))
}

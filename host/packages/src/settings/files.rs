//! The uv.toml files that speak for this user.

use std::path::PathBuf;

use uv_settings::{Combine, FilesystemOptions, Options};

use super::Variables;
use crate::error::{Cause, SettingsError};

/// Which uv.toml files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFiles {
    /// The user's and the system's, where uv itself looks for them; the user's goes first. A project's own uv.toml is
    /// not read: what codebox fetches must not depend on the directory it runs in.
    OfUser,
    /// These, the first one going first. They must exist.
    Only(Vec<PathBuf>),
}

/// Reads them into one set of options; only uv's top level is of interest here, not its `[pip]` table.
pub(super) fn read(variables: &Variables<'_>, files: &ConfigFiles) -> Result<Options, SettingsError> {
    let found = if let Some(file) = variables.text("UV_CONFIG_FILE") {
        vec![FilesystemOptions::from_file(file).map_err(unusable)?]
    } else if variables.flag("UV_NO_CONFIG")? == Some(true) {
        Vec::new()
    } else {
        match files {
            ConfigFiles::OfUser => {
                let user = FilesystemOptions::user().map_err(unusable)?;
                let system = FilesystemOptions::system().map_err(unusable)?;
                user.into_iter().chain(system).collect()
            }
            ConfigFiles::Only(paths) => paths
                .iter()
                .map(|path| FilesystemOptions::from_file(path).map_err(unusable))
                .collect::<Result<_, _>>()?,
        }
    };
    Ok(found.into_iter().map(FilesystemOptions::into_options).reduce(Combine::combine).unwrap_or_default())
}

fn unusable(error: impl Into<Cause>) -> SettingsError {
    SettingsError::File(error.into())
}

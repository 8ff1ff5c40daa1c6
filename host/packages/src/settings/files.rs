//! The user's uv.toml files.

use std::path::PathBuf;

use uv_settings::{Combine, FilesystemOptions, Options};

use super::Variables;
use crate::error::{Cause, SettingsError};

/// Selection of the uv.toml files to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigFiles {
    /// The user's and the system's file, at uv's own locations; the user's takes precedence. A project's uv.toml is not
    /// read: downloads must not depend on the working directory.
    User,
    /// These files, which must exist. Earlier ones take precedence.
    Explicit(Vec<PathBuf>),
}

/// Reads the files and merges their options. Only uv's top-level options are used, not the `[pip]` table.
pub(super) fn read(variables: &Variables<'_>, files: &ConfigFiles) -> Result<Options, SettingsError> {
    let found = if let Some(file) = variables.text("UV_CONFIG_FILE") {
        vec![FilesystemOptions::from_file(file).map_err(unusable)?]
    } else if variables.flag("UV_NO_CONFIG")? == Some(true) {
        Vec::new()
    } else {
        match files {
            ConfigFiles::User => {
                let user = FilesystemOptions::user().map_err(unusable)?;
                let system = FilesystemOptions::system().map_err(unusable)?;
                user.into_iter().chain(system).collect()
            }
            ConfigFiles::Explicit(paths) => paths
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

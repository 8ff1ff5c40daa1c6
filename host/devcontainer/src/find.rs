//! Descriptions in a project.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_files::{TrustedOwners, read_config};

use crate::error::DevContainerError;

/// Maximum size of a description in bytes.
const MAX_SIZE: u64 = 1 << 20;

/// Maximum number of named descriptions that are listed.
const MAX_NAMED: usize = 20;

/// Dev container that a project describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevContainer {
    /// Directory of the project, absolute and free of links.
    pub workspace: PathBuf,
    /// The description.
    pub config: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// Finds the dev container of the project in a directory: `.devcontainer/devcontainer.json`, `.devcontainer.json`, or the only
/// `.devcontainer/NAME/devcontainer.json`. `config` names another one: a file, or a NAME. Starts nothing.
///
/// # Errors
/// Returns an error if there is none or more than one, or if the description cannot be read.
pub fn find(dir: &Path, config: Option<&Path>) -> Result<DevContainer, DevContainerError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| DevContainerError::Unreadable { path, source }
    };
    let workspace = dir.canonicalize().map_err(unreadable(dir))?;
    let read = |path: &Path| read_config(path, MAX_SIZE, TrustedOwners::All).map_err(unreadable(path));
    let found = |path: PathBuf, text| DevContainer { workspace: workspace.clone(), config: path, text };
    if let Some(config) = config {
        let as_file = workspace.join(config);
        let as_name = workspace.join(".devcontainer").join(config).join("devcontainer.json");
        let path = if is_name(config) && !as_file.is_file() { as_name } else { as_file };
        let text = read(&path)?.ok_or(io::ErrorKind::NotFound.into()).map_err(unreadable(&path))?;
        return Ok(found(path, text));
    }
    for path in [".devcontainer/devcontainer.json", ".devcontainer.json"] {
        let path = workspace.join(path);
        if let Some(text) = read(&path)? {
            return Ok(found(path, text));
        }
    }
    let mut named = named(&workspace.join(".devcontainer"));
    match named.len() {
        0 => Err(DevContainerError::None { dir: workspace }),
        1 => {
            let path = named.remove(0);
            let text = read(&path)?.ok_or(io::ErrorKind::NotFound.into()).map_err(unreadable(&path))?;
            Ok(found(path, text))
        }
        _ => {
            let name = |path: &PathBuf| path.strip_prefix(&workspace).unwrap_or(path).display().to_string();
            let names = named.iter().map(name).collect();
            Err(DevContainerError::Several { dir: workspace, names })
        }
    }
}

/// Returns true for one component of a path that may be the name of a description.
fn is_name(config: &Path) -> bool {
    config.components().count() == 1 && config.extension().is_none()
}

/// Returns the descriptions in the directories of a directory, in order of their names.
fn named(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path().join("devcontainer.json"))
        .filter(|path| path.is_file())
        .take(MAX_NAMED)
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, path: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, "{}").expect("a file");
    }

    #[test]
    fn finds_descriptions_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().canonicalize().expect("a path");
        let found = |config: Option<&str>| find(&dir, config.map(Path::new)).map(|found| found.config);
        let shown = |result: Result<PathBuf, DevContainerError>| match result {
            Ok(path) => path.strip_prefix(&dir).expect("below").display().to_string(),
            Err(error) => error.to_string().replace(&dir.display().to_string(), "DIR"),
        };
        assert_eq!(shown(found(None)), "DIR has no dev container");
        write(&dir, ".devcontainer/b/devcontainer.json");
        assert_eq!(shown(found(None)), ".devcontainer/b/devcontainer.json");
        write(&dir, ".devcontainer/a/devcontainer.json");
        let several =
            "DIR has several dev containers: .devcontainer/a/devcontainer.json, .devcontainer/b/devcontainer.json";
        assert_eq!(shown(found(None)), several);
        assert_eq!(shown(found(Some("b"))), ".devcontainer/b/devcontainer.json");
        write(&dir, ".devcontainer.json");
        assert_eq!(shown(found(None)), ".devcontainer.json");
        write(&dir, ".devcontainer/devcontainer.json");
        assert_eq!(shown(found(None)), ".devcontainer/devcontainer.json");
        assert_eq!(shown(found(Some(".devcontainer.json"))), ".devcontainer.json");
        assert!(shown(found(Some("c"))).contains("cannot use DIR/.devcontainer/c/devcontainer.json"));
    }
}

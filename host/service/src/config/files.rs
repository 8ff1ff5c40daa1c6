//! Configuration files as they are shown to people: every value that is set, and the file that sets it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use codebox_core::{LimitKind, Limits};
use codebox_files::{TrustedOwners, read_config};
use toml::Value;

use super::read::MAX_SETTINGS;
use super::{Settings, SettingsError, narrow};
use crate::limit_text::limit_value;

/// The configuration files that apply to the command line in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFiles {
    /// File of the user.
    pub user: PathBuf,
    /// File of the project in the working directory.
    pub project: PathBuf,
}

/// A value that is set, or that applies because none is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// Key, with the names of its tables and dots between them.
    pub key: String,
    /// Value, as in a file.
    pub value: String,
    /// Origin of the value.
    pub origin: ConfigOrigin,
}

/// Origin of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigOrigin {
    /// The user's file.
    User,
    /// The project's file, which can only narrow the settings of the user.
    Project,
    /// No file.
    Default,
}

impl ConfigFiles {
    /// Reads the files, and returns the settings that apply.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or used.
    pub fn check(&self) -> Result<Settings, SettingsError> {
        let (user, project) = (super::read_user(&self.user)?, super::read_project(&self.project)?);
        Ok(narrow(&user, &project, &self.project)?)
    }

    /// Returns the values of both files in the order of their keys, and the limits that apply without one.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or used.
    pub fn values(&self) -> Result<Vec<ConfigValue>, SettingsError> {
        self.check()?;
        let mut values = Vec::new();
        let files = [
            (&self.user, TrustedOwners::OwnOrRoot, ConfigOrigin::User),
            (&self.project, TrustedOwners::All, ConfigOrigin::Project),
        ];
        for (path, trusted, origin) in files {
            let text = read_config(path, MAX_SETTINGS, trusted)
                .map_err(|source| SettingsError::Unreadable { path: path.clone(), source })?;
            // The check has parsed it.
            let table: toml::Table = text.unwrap_or_default().parse().unwrap_or_default();
            flatten("", &Value::Table(table), &mut |key, value| {
                values.push(ConfigValue { key, value: value.to_string(), origin });
            });
        }
        let set: BTreeSet<String> = values.iter().map(|value| value.key.clone()).collect();
        for kind in LimitKind::ALL {
            let key = format!("limits.{}", limit_key(kind));
            if let (false, Some(value)) = (set.contains(&key), limit_value(kind, &Limits::default())) {
                values.push(ConfigValue { key, value: format!("{value:?}"), origin: ConfigOrigin::Default });
            }
        }
        values.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(values)
    }
}

/// Returns the key of a limit in the tables of a file.
fn limit_key(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Wall => "timeout",
        LimitKind::Cpu => "cpu",
        LimitKind::Memory => "memory",
        LimitKind::Output => "output",
        LimitKind::Disk => "disk",
        LimitKind::Files => "files",
        LimitKind::OpenFiles => "open-files",
        LimitKind::Processes => "processes",
        LimitKind::Fuel => "fuel",
        LimitKind::NetBytes => "net-bytes",
        LimitKind::NetConnections => "net-connections",
    }
}

/// Calls a function for each value that is no table, with its key.
fn flatten(prefix: &str, value: &Value, found: &mut impl FnMut(String, &Value)) {
    let Value::Table(table) = value else { return found(prefix.to_owned(), value) };
    for (name, value) in table {
        let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let name = if is_bare { name.clone() } else { format!("{name:?}") };
        let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        flatten(&key, value, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_origin() {
        let dir = tempfile::tempdir().expect("a directory");
        let (user, project) = (dir.path().join("config.toml"), dir.path().join("codebox.toml"));
        let files = ConfigFiles { user: user.clone(), project: project.clone() };
        let shown = |files: &ConfigFiles| -> Vec<String> {
            let values = files.values().expect("they are valid");
            values.iter().map(|value| format!("{} = {} {:?}", value.key, value.value, value.origin)).collect()
        };
        assert!(shown(&files).contains(&"limits.timeout = \"1m\" Default".to_owned()), "{:?}", shown(&files));
        std::fs::write(&user, "isolation = 'wasm'\n[limits]\ntimeout = '5s'\n").expect("it is ours");
        std::fs::write(&project, "[limits]\nmemory = '64M'\n").expect("it is ours");
        let values = shown(&files);
        for expected in ["isolation = \"wasm\" User", "limits.timeout = \"5s\" User", "limits.memory = \"64M\" Project"]
        {
            assert!(values.contains(&expected.to_owned()), "{expected}: {values:?}");
        }
        assert!(!values.iter().any(|value| value.starts_with("limits.memory") && value.ends_with("Default")));
        // Every limit is a key that a file can have.
        let all = LimitKind::ALL.map(|kind| format!("{} = 'unlimited'\n", limit_key(kind))).concat();
        std::fs::write(&user, format!("[limits]\n{all}")).expect("it is ours");
        files.check().expect("all keys are known");
        std::fs::write(&project, "nonsense = 1\n").expect("it is ours");
        assert!(files.values().is_err());
    }
}

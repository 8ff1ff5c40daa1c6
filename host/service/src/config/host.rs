//! The host process of command lines in a configuration file.

use std::path::Path;
use std::time::Duration;

use codebox_core::{Limit, parse_duration};
use serde::Deserialize;
use toml::Value;

use super::ConfigError;
use super::limits::Place;

/// Time without a run after which a host process ends, if the configuration sets none.
const IDLE: Duration = Duration::from_secs(600);

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    enabled: Option<bool>,
    autostart: Option<bool>,
    idle: Option<Value>,
}

/// Use of a host process that serves later runs of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostProcess {
    /// Permission to use and start a host process.
    pub enabled: bool,
    /// True if the first run starts a host process, instead of the second one within a minute.
    pub autostart: bool,
    /// Time without a run after which a host process ends.
    pub idle: Limit<Duration>,
}

impl Default for HostProcess {
    fn default() -> Self {
        Self { enabled: true, autostart: false, idle: Limit::At(IDLE) }
    }
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<HostProcess, ConfigError> {
        let idle = Place { file, table: "host", key: "idle" }.read(self.idle, parse_duration)?;
        let default = HostProcess::default();
        Ok(HostProcess {
            enabled: self.enabled.unwrap_or(default.enabled),
            autostart: self.autostart.unwrap_or(default.autostart),
            idle: idle.unwrap_or(default.idle),
        })
    }
}

impl HostProcess {
    /// Returns the user's settings. A project cannot change them, because a host process serves all projects.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        if *project != Self::default() {
            let fix = "remove it, or put it into your own configuration";
            return Err(ConfigError::new(file, "host", "a project cannot configure the host process", fix));
        }
        Ok(self.clone())
    }
}

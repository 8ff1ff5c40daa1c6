//! Containers that codebox has not made, in a configuration file.

use std::collections::BTreeSet;
use std::path::Path;

use codebox_core::ContainerPower;
use serde::Deserialize;

use super::ConfigError;

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    powers: Vec<String>,
    #[serde(rename = "dev-container", alias = "dev_container")]
    dev_container: Option<String>,
}

/// Settings of containers that codebox has not made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Containers {
    /// Powers over this machine that they may have.
    pub powers: BTreeSet<ContainerPower>,
    /// Use of the dev container of a project; `None` for the default.
    pub dev_container: Option<DevContainerUse>,
}

/// Use of the dev container of a project by jobs that run in a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DevContainerUse {
    /// Only if the call or the tool names it.
    #[default]
    Named,
    /// Also if a job runs in a container for another reason.
    Preferred,
    /// By all jobs of the project.
    Required,
}

const POWERS: &str = "containers.powers";
const DEV_CONTAINER: &str = "containers.dev-container";

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<Containers, ConfigError> {
        let power = |text: String| {
            text.parse().map_err(|error: codebox_core::NameError| {
                ConfigError::new(file, POWERS, format!("invalid value {:?}", error.text), error.rule)
            })
        };
        let use_of = |text: String| match text.as_str() {
            "named" => Ok(DevContainerUse::Named),
            "prefer" => Ok(DevContainerUse::Preferred),
            "require" => Ok(DevContainerUse::Required),
            other => {
                let detail = format!("unknown value {other:?}");
                Err(ConfigError::new(file, DEV_CONTAINER, detail, "use named, prefer or require"))
            }
        };
        Ok(Containers {
            powers: self.powers.into_iter().map(power).collect::<Result<_, _>>()?,
            dev_container: self.dev_container.map(use_of).transpose()?,
        })
    }
}

impl Containers {
    /// Restricts these settings by those of a project, which cannot give its containers powers.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        let fix = "put it into your own configuration";
        if !project.powers.is_empty() {
            return Err(ConfigError::new(file, POWERS, "a project cannot give its containers powers", fix));
        }
        if project.dev_container.is_some() {
            return Err(ConfigError::new(file, DEV_CONTAINER, "a project cannot make its dev container be used", fix));
        }
        Ok(self.clone())
    }
}

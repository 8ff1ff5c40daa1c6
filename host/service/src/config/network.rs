//! Hosts in a configuration file.

use std::path::Path;

use codebox_core::NetGrant;
use serde::Deserialize;

use super::ConfigError;

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    allow: Option<Vec<String>>,
}

const KEY: &str = "network.allow";

impl Table {
    /// Returns the hosts that may be granted; `None` allows every host.
    pub(super) fn read(self, file: &Path) -> Result<Option<Vec<NetGrant>>, ConfigError> {
        let Self { allow } = self;
        let read = |text: String| {
            let fault = |error: codebox_core::NameError| {
                ConfigError::new(file, KEY, format!("invalid value {:?}", error.text), error.rule)
            };
            text.parse::<NetGrant>().map_err(fault)
        };
        allow.map(|texts| texts.into_iter().map(read).collect()).transpose()
    }
}

/// Restricts the user's list to a project's. Each of the project's hosts must be covered by the user's list.
pub(super) fn narrowed(
    ours: Option<&Vec<NetGrant>>,
    theirs: Option<&Vec<NetGrant>>,
    file: &Path,
) -> Result<Option<Vec<NetGrant>>, ConfigError> {
    if let (Some(ours), Some(theirs)) = (ours, theirs)
        && let Some(beyond) = theirs.iter().find(|host| !ours.iter().any(|one| host.is_within(one)))
    {
        let detail = format!("{beyond} is not allowed by the user configuration");
        return Err(ConfigError::new(file, KEY, detail, "remove it, or allow it in your own configuration"));
    }
    Ok(theirs.or(ours).cloned())
}

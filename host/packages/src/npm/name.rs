//! Names of packages.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spec::BadNpmSpec;

/// Longest name that the registry takes.
const LONGEST: usize = 214;

/// A package's name: `name` or `@scope/name`, as a directory below `node_modules` can have it on every system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NpmName(String);

impl NpmName {
    /// The name as it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name as one component of a registry's address.
    pub(super) fn in_address(&self) -> String {
        self.0.replace('/', "%2f")
    }
}

impl FromStr for NpmName {
    type Err = BadNpmSpec;

    fn from_str(text: &str) -> Result<Self, BadNpmSpec> {
        let bad = || BadNpmSpec::name(text);
        let (scope, name) = match text.strip_prefix('@') {
            Some(rest) => {
                let (scope, name) = rest.split_once('/').ok_or_else(bad)?;
                (Some(scope), name)
            }
            None => (None, text),
        };
        if text.len() > LONGEST || !is_part(name) || !scope.is_none_or(is_part) {
            return Err(bad());
        }
        // Where packages are looked for, and where npm itself keeps things.
        if matches!(name.to_ascii_lowercase().as_str(), "node_modules" | "favicon.ico") {
            return Err(bad());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Old packages have capitals; none begins with a dot, an underscore or a hyphen that a command line takes for an option.
fn is_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    !part.is_empty() && part.chars().all(plain) && !part.starts_with(['.', '_', '-', '~']) && !part.ends_with('.')
}

impl TryFrom<String> for NpmName {
    type Error = BadNpmSpec;

    fn try_from(text: String) -> Result<Self, BadNpmSpec> {
        text.parse()
    }
}

impl From<NpmName> for String {
    fn from(name: NpmName) -> Self {
        name.0
    }
}

impl fmt::Display for NpmName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

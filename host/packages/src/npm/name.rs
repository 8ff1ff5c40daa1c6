//! npm package names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spec_error::ParseNpmSpecError;

/// Maximum length of a name in the registry, in bytes.
const MAX_LENGTH: usize = 214;

/// A package's name: `name` or `@scope/name`, valid as a directory name below `node_modules` on every system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NpmName(String);

impl NpmName {
    /// Returns the name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as one path segment of a registry URL.
    pub(super) fn url_segment(&self) -> String {
        self.0.replace('/', "%2f")
    }
}

impl FromStr for NpmName {
    type Err = ParseNpmSpecError;

    fn from_str(text: &str) -> Result<Self, ParseNpmSpecError> {
        let bad = || ParseNpmSpecError::name(text);
        let (scope, name) = match text.strip_prefix('@') {
            Some(rest) => {
                let (scope, name) = rest.split_once('/').ok_or_else(bad)?;
                (Some(scope), name)
            }
            None => (None, text),
        };
        if text.len() > MAX_LENGTH || !is_valid_part(name) || !scope.is_none_or(is_valid_part) {
            return Err(bad());
        }
        // npm reserves these names; `node_modules` is the directory of packages.
        if matches!(name.to_ascii_lowercase().as_str(), "node_modules" | "favicon.ico") {
            return Err(bad());
        }
        Ok(Self(text.to_owned()))
    }
}

/// Returns true if a scope or a bare name is valid. Old packages have capitals; no package starts with a dot, an
/// underscore or a hyphen, which a command line would take for an option.
fn is_valid_part(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
    !part.is_empty() && part.chars().all(plain) && !part.starts_with(['.', '_', '-', '~']) && !part.ends_with('.')
}

impl TryFrom<String> for NpmName {
    type Error = ParseNpmSpecError;

    fn try_from(text: String) -> Result<Self, ParseNpmSpecError> {
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

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Why a text is not a name of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("bad {what} {text:?}: {rule}")]
pub struct NameError {
    /// What the name would have been, such as "runtime name".
    pub what: &'static str,
    /// The text as given.
    pub text: String,
    /// The rule it breaks.
    pub rule: &'static str,
}

impl NameError {
    /// A fault of `text`, which was to be `what`, by `rule`.
    #[must_use]
    pub fn new(what: &'static str, text: &str, rule: &'static str) -> Self {
        let text = text.to_owned();
        Self { what, text, rule }
    }
}

/// The name of a registered guest runtime: lower-case letters, digits, `-`, `_` and `.`, starting with a letter.
///
/// Names become folder names, so nothing that a path could read into them is accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeName(String);

impl RuntimeName {
    /// Accepts `text` if it is a name.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        let good = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(rest) && text.len() <= 64;
        if good {
            return Ok(Self(text));
        }
        Err(NameError::new(
            "runtime name",
            &text,
            "use up to 64 lower-case letters, digits, '-', '_' and '.', starting with a letter",
        ))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RuntimeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RuntimeName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_a_path_could_read_into_a_name() {
        for bad in ["", ".", "..", "a/b", "A", "1a", "-a", "a b", "a\0", "é"] {
            assert!(RuntimeName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(RuntimeName::new("ruby-3.4").map(|n| n.to_string()), Ok("ruby-3.4".to_owned()));
    }
}

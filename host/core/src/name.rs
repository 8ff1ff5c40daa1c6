use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Error for text that is not a valid name of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid {what} {text:?}: {rule}")]
pub struct NameError {
    /// Kind of the name, such as "runtime name".
    pub what: &'static str,
    /// The original text.
    pub text: String,
    /// Violated rule.
    pub rule: &'static str,
}

impl NameError {
    /// Creates an error for `text`, which violates `rule` and is therefore not a valid `what`.
    #[must_use]
    pub fn new(what: &'static str, text: &str, rule: &'static str) -> Self {
        let text = text.to_owned();
        Self { what, text, rule }
    }
}

/// Name of a registered guest runtime: lower-case letters, digits, `-`, `_` and `.`, starting with a letter.
///
/// Names are used as directory names, so a name never contains a path separator and is never `.` or `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeName(String);

impl RuntimeName {
    /// Creates a name from `text` if `text` is valid.
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

    /// Returns the name.
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
    fn rejects_names_unsafe_in_paths() {
        for bad in ["", ".", "..", "a/b", "A", "1a", "-a", "a b", "a\0", "é"] {
            assert!(RuntimeName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(RuntimeName::new("ruby-3.4").map(|n| n.to_string()), Ok("ruby-3.4".to_owned()));
    }
}

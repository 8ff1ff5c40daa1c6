use std::fmt;
use std::str::FromStr;

use crate::name::{NameError, RuntimeName};

/// Language, or a runtime that the user registered by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
    /// TypeScript, run after its types are removed.
    TypeScript,
    /// No language: a command line, whatever program it runs.
    Command,
    /// A registered runtime.
    Named(RuntimeName),
}

impl Language {
    /// Returns the name used on the command line and in reports.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Command => "command",
            Self::Named(name) => name.as_str(),
        }
    }

    /// Returns the language whose runtime runs this one: JavaScript for TypeScript, and otherwise the language itself.
    #[must_use]
    pub fn runtime_language(&self) -> &Self {
        match self {
            Self::TypeScript => &Self::JavaScript,
            other => other,
        }
    }

    /// Returns the language of a file name extension.
    #[must_use]
    pub fn from_extension(extension: &str) -> Option<Self> {
        match extension {
            "py" | "pyw" => Some(Self::Python),
            "js" | "mjs" | "cjs" => Some(Self::JavaScript),
            "ts" | "mts" | "cts" | "tsx" => Some(Self::TypeScript),
            _ => None,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Language {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Ok(match text {
            "python" | "py" => Self::Python,
            "javascript" | "js" => Self::JavaScript,
            "typescript" | "ts" => Self::TypeScript,
            other => Self::Named(RuntimeName::new(other)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_languages() {
        assert_eq!("py".parse(), Ok(Language::Python));
        assert_eq!(Language::from_extension("mjs"), Some(Language::JavaScript));
        assert!(matches!("ruby".parse(), Ok(Language::Named(_))));
        assert!("Ruby!".parse::<Language>().is_err());
    }
}

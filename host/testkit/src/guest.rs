//! Languages of the hostile programs.

use std::path::PathBuf;

use anyhow::Result;

use crate::fixture::{fixtures, programs_with_extension};

/// Language of hostile programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guest {
    /// Python.
    Python,
    /// JavaScript.
    JavaScript,
}

impl Guest {
    /// Every language.
    pub const ALL: [Self; 2] = [Self::Python, Self::JavaScript];

    /// Returns the name that `--lang` accepts and that trial names start with.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.choose("python", "javascript")
    }

    /// Returns one of two values, by language.
    #[must_use]
    pub fn choose<T>(self, python: T, javascript: T) -> T {
        match self {
            Self::Python => python,
            Self::JavaScript => javascript,
        }
    }

    /// Returns the arguments of `codebox run` for the text of a program in this language.
    #[must_use]
    pub fn inline(self, text: &str) -> [String; 4] {
        ["--lang", self.name(), "-c", text].map(str::to_owned)
    }

    /// Returns the arguments of `codebox run` for a program that prints one number and ends.
    #[must_use]
    pub fn printing(self, number: usize) -> [String; 4] {
        self.inline(&self.choose(format!("print({number})"), format!("console.log({number})")))
    }

    /// Returns the path of the hostile program of this name, which need not exist.
    #[must_use]
    pub fn hostile(self, program: &str) -> PathBuf {
        self.folder().join(format!("{program}.{}", self.extension()))
    }

    /// Lists the names of all hostile programs in this language, without extension, sorted.
    ///
    /// # Errors
    /// Fails if their folder cannot be listed.
    pub fn hostile_programs(self) -> Result<Vec<String>> {
        programs_with_extension(&self.folder(), self.extension())
    }

    fn folder(self) -> PathBuf {
        fixtures().join(self.name()).join("hostile")
    }

    fn extension(self) -> &'static str {
        self.choose("py", "js")
    }
}

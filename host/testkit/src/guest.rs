//! The languages that hostile programs are written in.

use std::path::PathBuf;

use anyhow::Result;

use crate::fixture::{fixtures, programs_ending};

/// A language that is attacked with.
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

    /// Its name, as `--lang` takes it and as trials begin.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.choose("python", "javascript")
    }

    /// One of two values, by language.
    #[must_use]
    pub fn choose<T>(self, python: T, javascript: T) -> T {
        match self {
            Self::Python => python,
            Self::JavaScript => javascript,
        }
    }

    /// The arguments of `codebox run` for the text of a program in this language.
    #[must_use]
    pub fn inline(self, text: &str) -> [String; 4] {
        ["--lang", self.name(), "-c", text].map(str::to_owned)
    }

    /// The same for a program that prints one number and ends.
    #[must_use]
    pub fn printing(self, number: usize) -> [String; 4] {
        self.inline(&self.choose(format!("print({number})"), format!("console.log({number})")))
    }

    /// The hostile program of this name, whether there is one or not.
    #[must_use]
    pub fn hostile(self, program: &str) -> PathBuf {
        self.folder().join(format!("{program}.{}", self.ending()))
    }

    /// The names, without ending, of all hostile programs in this language, sorted.
    ///
    /// # Errors
    /// When their folder cannot be listed.
    pub fn hostile_programs(self) -> Result<Vec<String>> {
        programs_ending(&self.folder(), self.ending())
    }

    fn folder(self) -> PathBuf {
        fixtures().join(self.name()).join("hostile")
    }

    fn ending(self) -> &'static str {
        self.choose("py", "js")
    }
}

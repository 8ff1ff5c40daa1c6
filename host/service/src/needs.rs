//! What a Python program imports, found by parsing it and never by running it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use codebox_core::{Job, Language};
use ruff_python_parser::{ParseError, parse_module};

mod depth;
mod imports;
mod room;

/// What a program needs, as far as its text tells.
///
/// Import statements count wherever they stand, also in a function that may never run and in a `try` that
/// may fail: knowing more than is needed costs little.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Imported modules: as written (`os.path`), and their first parts (`os`). Relative imports are left out.
    pub imports: BTreeSet<String>,
    /// Why the text could not be parsed. Only Python itself tells the user; nothing else is known then.
    pub syntax_error: Option<SyntaxFault>,
}

/// Where a text stops being Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxFault {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub message: String,
}

impl Needs {
    /// The needs of a program's text.
    ///
    /// Nothing is found in a text that nests so deeply, or is so long, that looking at it could exhaust the host.
    #[must_use]
    pub fn of_python(text: &str) -> Self {
        if !text.contains("import") || text.len() > room::LONGEST || !depth::is_shallow(text) {
            return Self::default();
        }
        room::with_room(text, || Self::parse(text)).unwrap_or_default()
    }

    /// Whether a text can be Python; one that cannot be looked at safely can.
    pub(crate) fn can_be_python(text: &str) -> bool {
        if text.len() > room::LONGEST || !depth::is_shallow(text) {
            return true;
        }
        room::with_room(text, || parse_module(text).is_ok()).unwrap_or(true)
    }

    fn parse(text: &str) -> Self {
        match parse_module(text) {
            Ok(module) => Self { imports: imports::of(text, module.suite()), syntax_error: None },
            Err(error) => Self { imports: BTreeSet::new(), syntax_error: Some(SyntaxFault::of(text, &error)) },
        }
    }

    /// The needs of a job: nothing, if it is not a Python program.
    ///
    /// A text in another encoding is read as far as it is ASCII, which module names nearly always are.
    #[must_use]
    pub fn of_job(job: &Job) -> Self {
        match (&job.language, job.source.text()) {
            (Language::Python, Some(bytes)) => {
                let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
                Self::of_python(&text)
            }
            _ => Self::default(),
        }
    }

    /// The modules without their submodules.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(String::as_str).filter(|name| !name.contains('.'))
    }
}

impl SyntaxFault {
    fn of(text: &str, error: &ParseError) -> Self {
        let place = error.location.start().to_usize();
        let before = text.bytes().take(place).filter(|byte| *byte == b'\n');
        Self { line: u32::try_from(before.count() + 1).unwrap_or(u32::MAX), message: error.error.to_string() }
    }
}

#[cfg(test)]
mod tests;

//! What a program needs, found by parsing it and never by running it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use codebox_core::{Job, Language};
use ruff_python_parser::{ParseError, parse_module};

mod ask;
mod depth;
mod imports;
mod neighbours;
mod packages;
mod power;
mod powers;
mod room;
mod script;

pub use ask::{Ask, BadAsk};
pub use neighbours::Neighbours;
pub use power::{Need, Power, Weight};

/// What a program needs, as far as its text tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Needs {
    /// Modules that a Python program imports: as written (`os.path`), and their first parts (`os`), without relative ones.
    ///
    /// Import statements count wherever they stand, also in a function that may never run and in a `try` that
    /// may fail: knowing more than is needed costs little.
    pub imports: BTreeSet<String>,
    /// What it needs that WebAssembly does not give, in the order of its text; looked for by [`Needs::of_whole`] only.
    pub powers: Vec<Need>,
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
    /// The imports of a program's text.
    ///
    /// Nothing is found in a text that nests so deeply, or is so long, that looking at it could exhaust the host.
    #[must_use]
    pub fn of_python(text: &str) -> Self {
        Self::look(text, None)
    }

    fn look(text: &str, neighbours: Option<&Neighbours>) -> Self {
        if !text.contains("import") || text.len() > room::LONGEST || !depth::is_shallow(text) {
            return Self::default();
        }
        room::with_room(text, || Self::parse(text, neighbours)).unwrap_or_default()
    }

    /// Whether a text can be Python; one that cannot be looked at safely can.
    pub(crate) fn can_be_python(text: &str) -> bool {
        if text.len() > room::LONGEST || !depth::is_shallow(text) {
            return true;
        }
        room::with_room(text, || parse_module(text).is_ok()).unwrap_or(true)
    }

    fn parse(text: &str, neighbours: Option<&Neighbours>) -> Self {
        let module = match parse_module(text) {
            Ok(module) => module,
            Err(error) => return Self { syntax_error: Some(SyntaxFault::of(text, &error)), ..Self::default() },
        };
        let imports = imports::of(text, module.suite());
        let powers = neighbours.map(|beside| powers::of(text, module.suite(), &imports, &|name| beside.has(name)));
        Self { imports, powers: powers.unwrap_or_default(), syntax_error: None }
    }

    /// The imports of a job: none, if it is not a Python program.
    ///
    /// A text in another encoding is read as far as it is ASCII, which module names nearly always are.
    #[must_use]
    pub fn of_job(job: &Job) -> Self {
        match (&job.language, job.source.text()) {
            (Language::Python, Some(bytes)) => Self::of_python(&String::from_utf8_lossy(bytes)),
            _ => Self::default(),
        }
    }

    /// Everything that a job's program needs, in one parse: imports and powers.
    ///
    /// A Python module that is among the `neighbours` is not the library's, whatever its name.
    #[must_use]
    pub fn of_whole(job: &Job, neighbours: &Neighbours) -> Self {
        let Some(bytes) = job.source.text() else { return Self::default() };
        let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
        match &job.language {
            Language::Python => Self::look(&text, Some(neighbours)),
            Language::JavaScript | Language::TypeScript => {
                Self { powers: script::powers(&job.language, job.source.file_name(), &text), ..Self::default() }
            }
            Language::Command | Language::Named(_) => Self::default(),
        }
    }

    /// The powers that the program cannot do without.
    pub fn required(&self) -> impl Iterator<Item = &Need> {
        self.powers.iter().filter(|need| need.weight == Weight::Required)
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

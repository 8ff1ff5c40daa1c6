//! The programs that tests run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::Guest;

/// The folder of all fixtures.
#[must_use]
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Programs whose output equals native Python's.
#[must_use]
pub fn compat_dir() -> PathBuf {
    fixtures().join("python/compat")
}

/// Programs of a language, a folder each, whose output equals that of the language's own interpreter.
#[must_use]
pub fn corpus_dir(language: &str) -> PathBuf {
    fixtures().join(language)
}

/// The driver of benchmark programs.
#[must_use]
pub fn pyperformance_dir() -> PathBuf {
    fixtures().join("python/pyperformance")
}

/// The names, without ending, of the Python programs in a folder, sorted.
///
/// # Errors
/// When the folder cannot be listed.
pub fn programs_in(folder: &Path) -> Result<Vec<String>> {
    programs_ending(folder, "py")
}

/// The same for programs of any ending.
pub(crate) fn programs_ending(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == ending) {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// The lines of a hostile program's first comment that a test can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The row of the threat table: "F1".
    pub row: String,
    /// The outcomes that are right, as [`Report::outcome`](crate::Report::outcome) words them.
    pub expect: Vec<String>,
}

impl Header {
    /// Reads the header of a hostile program.
    ///
    /// # Errors
    /// When there is none.
    pub fn of(guest: Guest, name: &str) -> Result<Self> {
        let path = guest.hostile(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let line = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            found.map(str::trim).with_context(|| format!("{} has no line {key}", path.display()))
        };
        let expect = line("expect:")?.split('|').map(|one| one.trim().to_owned()).collect();
        Ok(Self { row: line("row:")?.to_owned(), expect })
    }
}

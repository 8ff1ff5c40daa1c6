//! Programs that tests run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::Guest;

/// Returns the folder of all fixtures.
#[must_use]
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Returns the folder of programs whose output equals native Python's.
#[must_use]
pub fn compat_dir() -> PathBuf {
    fixtures().join("python/compat")
}

/// Returns the folder of a language, which has one folder per program; the output of these programs equals that of the
/// language's own interpreter.
#[must_use]
pub fn corpus_dir(language: &str) -> PathBuf {
    fixtures().join(language)
}

/// Returns the folder of the benchmark driver.
#[must_use]
pub fn pyperformance_dir() -> PathBuf {
    fixtures().join("python/pyperformance")
}

/// Lists the names of the Python programs in a folder, without extension, sorted.
///
/// # Errors
/// Fails if the folder cannot be listed.
pub fn programs_in(folder: &Path) -> Result<Vec<String>> {
    programs_with_extension(folder, "py")
}

/// Lists the names of the programs in a folder that have this extension, without it, sorted.
pub(crate) fn programs_with_extension(folder: &Path, ending: &str) -> Result<Vec<String>> {
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

/// Machine-readable lines of a hostile program's first comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Row of the threat table, such as "F1".
    pub row: String,
    /// Accepted outcomes, in the wording of [`Report::outcome`](crate::Report::outcome).
    pub expect: Vec<String>,
}

impl Header {
    /// Reads the header of a hostile program.
    ///
    /// # Errors
    /// Fails if the program has no header.
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

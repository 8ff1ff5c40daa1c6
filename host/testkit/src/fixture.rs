//! The programs that tests run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

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

/// JavaScript programs whose output equals Node's, a folder each.
#[must_use]
pub fn javascript_dir() -> PathBuf {
    fixtures().join("javascript")
}

/// One program per attack.
#[must_use]
pub fn hostile_dir() -> PathBuf {
    fixtures().join("python/hostile")
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
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".py").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The lines of a hostile program's docstring that a test can read.
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
    pub fn of(name: &str) -> Result<Self> {
        let text = fs::read_to_string(hostile_dir().join(format!("{name}.py")))?;
        let line = |key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            found.map(str::trim).with_context(|| format!("{name}.py has no line {key}"))
        };
        let expect = line("expect:")?.split('|').map(|one| one.trim().to_owned()).collect();
        Ok(Self { row: line("row:")?.to_owned(), expect })
    }
}

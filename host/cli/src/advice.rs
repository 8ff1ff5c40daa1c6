//! Line after a run that names the option or command with which the program can do what it did not.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use codebox_core::{GuestPath, Isolation, Outcome, RunReport};

mod commands;
mod files;
mod runners;

/// Facts about a run that its report does not have.
pub(crate) struct Context<'c> {
    /// File of the program, if it has one.
    pub script: Option<PathBuf>,
    /// Arguments of the program.
    pub words: Vec<String>,
    /// True if the program has no file or directory of this machine.
    pub granted_none: bool,
    /// True if the files that the program leaves in its working directory are kept.
    pub keeps_files: bool,
    /// Directories that the program may write, whose files are kept.
    pub writable: Vec<GuestPath>,
    /// Directories that the program may only read.
    pub read_only: Vec<GuestPath>,
    /// True if the working directory of this process has files besides the program.
    pub has_files_here: bool,
    /// Command line of this process.
    pub args: &'c [OsString],
}

impl Context<'_> {
    /// Returns true if the directory of this process has files besides the program. Called before the process confines itself.
    pub(crate) fn has_files_here(script: Option<&Path>) -> bool {
        let Ok(entries) = Path::new(".").read_dir() else { return false };
        let own = script.and_then(Path::file_name);
        let is_other = |name: &OsString| own != Some(name) && !name.as_encoded_bytes().starts_with(b".");
        entries.filter_map(Result::ok).any(|entry| is_other(&entry.file_name()))
    }

    /// Returns the line, if there is one.
    pub(crate) fn advice(&self, report: &RunReport) -> Option<String> {
        // A run that is stopped may have no reader of lines.
        if !matches!(report.outcome, Outcome::Exited(_)) {
            return None;
        }
        let (error, script) = (report.error.as_ref(), self.script.as_deref());
        if let Some(line) = runners::advice(report, script, &self.words, self.args) {
            return Some(line);
        }
        if self.granted_none {
            let missed = error.and_then(|error| files::advice(error, script, self.args));
            let missed = missed.or_else(|| files::advice_for_words(&self.words, report, self.args));
            let missed = missed.or_else(|| files::advice_for_missed(report, script, self.args));
            let missed = missed.or_else(|| files::advice_for_twins(&report.files, &self.writable, self.args));
            if missed.is_some() {
                return missed;
            }
        }
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let refused = error.and_then(|error| files::advice_to_write(error, script, &self.read_only));
        let refused = refused.or_else(|| files::advice_for_refused(&report.missed, script, &self.read_only));
        let refused = refused.or_else(|| error.and_then(|error| commands::variable(error, is_set, self.args)));
        if refused.is_some() {
            return refused;
        }
        if report.provenance.isolation == Isolation::Container
            && let Some(line) = error.and_then(|error| commands::program(error, report.provenance.image.as_deref()))
        {
            return Some(line);
        }
        // The listing of a directory is seldom an error, and the working directory of a text is listed to find modules.
        let finds_nothing = report.missed.lists_work_dir && report.files.created.is_empty();
        if self.granted_none && self.script.is_some() && self.has_files_here && finds_nothing {
            return files::advice_for_listing(self.args);
        }
        if !report.is_success() {
            return None;
        }
        let lost = (!self.keeps_files).then(|| files::discarded(&report.files, &self.writable)).flatten();
        let figure = "the program has shown a figure; draw it in the terminal or save it with --show";
        lost.or_else(|| report.missed.shows_figures.then(|| figure.to_owned()))
    }
}

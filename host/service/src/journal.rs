//! Journal of accepted jobs, including jobs whose codebox process was killed.
//!
//! A job is recorded in its own note file before it runs. The process that runs the job holds a lock on the note, and
//! writes the job's end to a second file. The next process to open the journal moves ended jobs to the history, one
//! line per job. A note that is not locked and has no end belongs to a killed process: its job is recorded as
//! `interrupted`. A note never causes a job to run, so no job runs twice.
//!
//! Invariant: a process that runs a job holds no open descriptor through which another job's note or the history can
//! change.
//!
//! Notes outlive the processes that write them. They are not synced to disk: a power failure can lose the last notes,
//! but also ends the jobs that they describe.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use codebox_core::{BackendId, Language, ResultKind, Source};
use thiserror::Error;

mod history;
mod open;
mod record;

use history::History;
use open::JobMarker;
use record::End;
pub use record::{Record, State};

/// The journal of jobs, kept in a folder.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
}

/// Failure to write or read the journal.
#[derive(Debug, Error)]
#[error("cannot {doing} the job journal in {}", folder.display())]
pub struct JournalError {
    /// Operation that failed, as a verb.
    pub doing: &'static str,
    /// Folder of the journal.
    pub folder: PathBuf,
    /// Error of the operating system.
    #[source]
    pub source: io::Error,
}

/// A job to record.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// Source of the program; its text is not recorded.
    pub source: &'a Source,
    /// Language of the program.
    pub language: &'a Language,
    /// Backend that was chosen for the job.
    pub backend: &'a BackendId,
}

impl Journal {
    /// Opens the journal in `folder`, which is created if it is missing, and records the end of jobs whose process is
    /// gone.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or listed.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let journal = Self { folder: folder.to_owned() };
        codebox_files::private_dir(folder).map_err(journal.failed("create"))?;
        open::recover(folder).map_err(journal.failed("read"))?;
        Ok(journal)
    }

    /// Records a job that is about to run, under a new id.
    ///
    /// # Errors
    /// Returns an error if the job cannot be recorded. The job must not be run then.
    pub fn accept(&self, job: Accepted<'_>) -> Result<Entry, JournalError> {
        let millis = record::millis(SystemTime::now());
        self.note(Record::new(format!("{millis:011x}{:08x}", rand::random::<u32>()), millis, job), "")
    }

    /// Records that this process runs a job again, after another process found that its backend lacks a feature.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`accept`](Self::accept), and if `id` is not a job's id.
    pub fn resume(&self, id: &str, job: Accepted<'_>) -> Result<Entry, JournalError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.failed("write")(io::Error::other(format!("invalid job id {id:?}"))));
        }
        self.note(Record::new(id.to_owned(), record::millis(SystemTime::now()), job), "-again")
    }

    fn note(&self, record: Record, suffix: &str) -> Result<Entry, JournalError> {
        let failed = self.failed("write");
        let write = || -> io::Result<Entry> {
            // The history is opened before the note is created, because a job whose note exists counts as accepted. It
            // is closed again.
            History::open(&self.folder)?;
            let note = JobMarker::create(&self.folder, &format!("{}{suffix}", record.id), &record.line())?;
            Ok(Entry { note, record })
        };
        write().map_err(failed)
    }

    /// Returns the last jobs, the latest first, including those that are running.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub fn recent(&self, most: usize) -> Result<Vec<Record>, JournalError> {
        let read = || -> io::Result<Vec<Record>> {
            let mut records = history::read(&self.folder)?;
            records.extend(open::unfinished(&self.folder)?);
            Ok(record::latest(records, most))
        };
        read().map_err(self.failed("read"))
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> JournalError {
        let folder = self.folder.clone();
        move |source| JournalError { doing, folder, source }
    }
}

/// A recorded job without an end. If it is dropped, the job counts as interrupted.
#[derive(Debug)]
pub struct Entry {
    note: JobMarker,
    record: Record,
}

impl Entry {
    /// Returns the job's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Records the job's end. A failure to record it is only logged: the job has ended, and its report is valid.
    pub fn end(self, kind: ResultKind, status: u8) {
        if let Err(error) = self.note.end(&End::now(kind, status)) {
            tracing::warn!(%error, "cannot record the end of a job");
        }
    }

    /// Records that another process now runs the job and records its end.
    pub fn hand_over_entry(self) {
        self.note.hand_over_entry();
    }
}

#[cfg(test)]
mod tests;

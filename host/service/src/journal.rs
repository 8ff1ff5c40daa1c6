//! What became of each accepted job, also where codebox did not live to tell.
//!
//! A job is noted before it runs, in a file of its own whose lock is held by whoever runs it, and its end is written to a
//! file beside that. Whoever starts next moves what is over to the history, a line for each job. A file that nobody holds
//! and that has no end is of a job whose process was killed: it gets the end `interrupted`. Nothing is ever run because of
//! a note, so no job runs twice.
//!
//! Invariant: a process that runs a job holds nothing open through which another job's note or the history can change.
//!
//! Notes outlive the processes that write them. They are not forced to the disk: after a loss of power the last ones may be
//! missing, and with them nothing that still runs.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use codebox_core::{BackendId, Language, ResultKind, Source};
use thiserror::Error;

mod history;
mod open;
mod record;

use history::History;
use open::Note;
use record::End;
pub use record::{Record, State};

/// The folder of notes.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
}

/// A note could not be written or read.
#[derive(Debug, Error)]
#[error("cannot {doing} the record of jobs in {}", folder.display())]
pub struct JournalError {
    /// What was tried.
    pub doing: &'static str,
    /// Where.
    pub folder: PathBuf,
    /// What the system said.
    #[source]
    pub source: io::Error,
}

/// A job as it is noted.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// What it runs; of a text only that it is one is noted.
    pub source: &'a Source,
    /// Its language.
    pub language: &'a Language,
    /// The backend that was chosen for it.
    pub backend: &'a BackendId,
}

impl Journal {
    /// The notes in `folder`, made if it is missing. Jobs whose process is gone get their end.
    ///
    /// # Errors
    /// When the folder cannot be made or looked through.
    pub fn open(folder: &Path) -> Result<Self, JournalError> {
        let journal = Self { folder: folder.to_owned() };
        codebox_files::private_dir(folder).map_err(journal.failed("make"))?;
        open::recover(folder).map_err(journal.failed("look through"))?;
        Ok(journal)
    }

    /// Notes a job that is about to run, under a number of its own.
    ///
    /// # Errors
    /// When it cannot be noted; it is not to be run then.
    pub fn accept(&self, job: Accepted<'_>) -> Result<Entry, JournalError> {
        let millis = record::millis(SystemTime::now());
        self.note(Record::new(format!("{millis:011x}{:08x}", rand::random::<u32>()), millis, job), "")
    }

    /// Notes that a job is run again by this process, after another has found that it cannot serve it.
    ///
    /// # Errors
    /// As for [`accept`](Self::accept), and when `id` is no job's number.
    pub fn resume(&self, id: &str, job: Accepted<'_>) -> Result<Entry, JournalError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.failed("add to")(io::Error::other(format!("{id:?} is no job's number"))));
        }
        self.note(Record::new(id.to_owned(), record::millis(SystemTime::now()), job), "-again")
    }

    fn note(&self, record: Record, suffix: &str) -> Result<Entry, JournalError> {
        let failed = self.failed("add to");
        let write = || -> io::Result<Entry> {
            // First, for a job whose note is there was accepted. It is not kept open.
            History::open(&self.folder)?;
            let note = Note::create(&self.folder, &format!("{}{suffix}", record.id), &record.line())?;
            Ok(Entry { note, record })
        };
        write().map_err(failed)
    }

    /// The last jobs, the latest first, those that run among them.
    ///
    /// # Errors
    /// When the notes cannot be read.
    pub fn recent(&self, most: usize) -> Result<Vec<Record>, JournalError> {
        let read = || -> io::Result<Vec<Record>> {
            let mut records = history::read(&self.folder)?;
            records.extend(open::unsettled(&self.folder)?);
            Ok(record::latest(records, most))
        };
        read().map_err(self.failed("read"))
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> JournalError {
        let folder = self.folder.clone();
        move |source| JournalError { doing, folder, source }
    }
}

/// A job that was noted and has no end yet. Dropped without one it counts as interrupted.
#[derive(Debug)]
pub struct Entry {
    note: Note,
    record: Record,
}

impl Entry {
    /// The job's number.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Notes its end. What cannot be noted is told in the log: the job itself is over, and its report stands.
    pub fn end(self, kind: ResultKind, status: u8) {
        if let Err(error) = self.note.end(&End::now(kind, status)) {
            tracing::warn!(%error, "the end of a job cannot be noted");
        }
    }

    /// Notes that another process runs it now, and notes its end.
    pub fn pass_on(self) {
        self.note.pass_on();
    }
}

#[cfg(test)]
mod tests;

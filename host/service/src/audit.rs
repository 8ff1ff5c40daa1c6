//! Audit log: who ran which program, with which grants and limits, and how it ended.
//!
//! Each record is one line of a file, with the digest of the line before. A record is written before its job runs, by a process
//! that has not run any of the program, and the file is closed again. The record of the end is added by the next process that opens the
//! journal, from the only file to which the process of the job could write: a program that has taken over its process can change the record
//! of its own end, and nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

mod chain;
mod event;

use chain::Writer;
pub use chain::{AuditRecord, Broken, Verified};
pub(crate) use event::audited;
pub use event::{
    BoxAction, BoxStarted, Called, CommandCall, ContainerGiven, DirGranted, Event, GrantsGiven, Program, SecretGranted,
    SessionAction, Started,
};

/// Directory of the log, in that of the journal.
const FOLDER: &str = "audit";

/// Failure to write or read the audit log.
#[derive(Debug, Error)]
#[error("cannot {doing} the audit log in {}", folder.display())]
pub struct AuditError {
    /// Operation that failed, as a verb.
    pub doing: &'static str,
    /// Folder of the log.
    pub folder: PathBuf,
    /// Error of the operating system, or the reason that the log is unusable.
    #[source]
    pub source: io::Error,
}

/// The audit log of a user.
#[derive(Debug, Clone)]
pub struct AuditLog {
    folder: PathBuf,
    /// The open files, until they are released.
    open: Arc<Mutex<Option<Writer>>>,
    keeps_open: bool,
}

impl AuditLog {
    /// Returns the log beside a journal of jobs. A process that runs no guests may keep it open.
    pub(crate) fn beside(journal: &Path, keeps_open: bool) -> Self {
        Self { folder: journal.join(FOLDER), open: Arc::default(), keeps_open }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Returns an error if it cannot be written. The log then has the records before.
    pub fn add(&self, event: &Event) -> Result<(), AuditError> {
        let add = || {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let mut writer = match open.take() {
                Some(writer) => writer.lock_again()?,
                None => Writer::open(&self.folder)?,
            };
            writer.append(event)?;
            *open = Some(writer.unlock()?);
            Ok(())
        };
        add().map_err(self.failed("write"))
    }

    /// Closes the files before a guest runs, unless this process runs none.
    pub(crate) fn release(&self) {
        if !self.keeps_open {
            drop(self.open.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
    }

    /// Passes on all records, the oldest first; lines that are no records are left out.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    pub fn each(&self, visit: &mut dyn FnMut(AuditRecord)) -> Result<(), AuditError> {
        chain::each(&self.folder, visit).map_err(self.failed("read"))
    }

    /// Checks that no record was changed or removed. `expected` is a digest that was noted before, which must be that of a record.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read. A record that was changed or removed is no error.
    pub fn verify(&self, expected: Option<&str>) -> Result<Result<Verified, Broken>, AuditError> {
        chain::verify(&self.folder, expected).map_err(self.failed("read"))
    }

    /// Removes the records before a time, in milliseconds since 1970, and adds a record of that. Returns the number of removed records.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or written, or if a record was changed or removed.
    pub fn prune(&self, before_ms: u64) -> Result<u64, AuditError> {
        chain::prune(&self.folder, before_ms).map_err(self.failed("prune"))
    }

    /// Begins a new log if a record was changed or removed, and keeps the old one in a file beside it, whose path is returned. `None` if the
    /// log is intact.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read or written. The old one is kept in any case.
    pub fn reset(&self) -> Result<Option<PathBuf>, AuditError> {
        let kept = chain::reset(&self.folder).map_err(self.failed("reset"))?;
        Ok(kept.map(|name| self.folder.join(name)))
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> AuditError {
        let folder = self.folder.clone();
        move |source| AuditError { doing, folder, source }
    }
}

#[cfg(test)]
mod tests;

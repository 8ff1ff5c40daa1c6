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
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use codebox_core::{Attachment, BackendId, Job, ResultKind, RunReport, ToolName, ToolResult, format_error_chain};
use serde::{Deserialize, Serialize};
use thiserror::Error;

mod history;
mod open;
mod parts;
mod record;

use crate::audit::{AuditError, AuditLog, ContainerGiven, Event, Started};
use history::History;
use open::JobMarker;
use parts::Parts;
use record::End;
pub use record::{Record, State};

/// Number of jobs of one process after which the ends of earlier ones are recorded. A process that runs a single job never does
/// that after it has started.
const RECOVERY_INTERVAL: u64 = 32;

/// The journal of jobs, kept in a folder.
#[derive(Debug, Clone)]
pub struct Journal {
    folder: PathBuf,
    audit: Audit,
    records_text: bool,
    log: AuditLog,
    /// Number of jobs that were accepted by this value.
    accepted: Arc<AtomicU64>,
    /// Parts of this process in the audit log that have no end.
    parts: Arc<Mutex<Parts>>,
}

/// Place and use of a journal.
#[derive(Debug, Clone)]
pub struct JournalOptions {
    /// Folder of the journal, which is created if it is missing.
    pub dir: PathBuf,
    /// Use of the audit log.
    pub audit: Audit,
    /// True if the audit log has the texts of programs.
    pub records_text: bool,
    /// True if the audit log stays open between two records, in a process that runs no guests.
    pub keeps_log_open: bool,
}

impl JournalOptions {
    /// Returns the default options of a journal in this folder.
    #[must_use]
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, audit: Audit::default(), records_text: false, keeps_log_open: false }
    }
}

/// Use of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Audit {
    /// No job is recorded in it.
    Off,
    /// Jobs are recorded in it; one that cannot be recorded runs nevertheless.
    #[default]
    On,
    /// Jobs are recorded in it before they run; one that cannot be recorded is refused.
    Required,
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
    /// The job; the text of its program is not recorded.
    pub job: &'a Job,
    /// Backend that was chosen for the job.
    pub backend: &'a BackendId,
    /// Running container in which it runs, if codebox has not made that.
    pub attachment: Option<&'a Attachment>,
    /// Tool that its program implements.
    pub tool: Option<&'a ToolName>,
}

impl Journal {
    /// Opens a journal, and records the end of jobs whose process is gone.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created or listed.
    pub fn open(options: JournalOptions) -> Result<Self, JournalError> {
        let JournalOptions { dir: folder, audit, records_text, keeps_log_open } = options;
        let log = AuditLog::beside(&folder, keeps_log_open);
        let journal =
            Self { folder: folder.clone(), audit, records_text, log, accepted: Arc::default(), parts: Arc::default() };
        codebox_files::private_dir(&folder).map_err(journal.failed("create"))?;
        open::recover(&folder, journal.used_audit_log()).map_err(journal.failed("read"))?;
        Ok(journal)
    }

    /// Records a job that is about to run, under a new id.
    ///
    /// # Errors
    /// Returns an error if the job cannot be recorded. The job must not be run then.
    pub fn accept(&self, job: Accepted<'_>) -> Result<Entry, JournalError> {
        let accepted = self.accepted.fetch_add(1, Ordering::Relaxed);
        if accepted > 0 && accepted.is_multiple_of(RECOVERY_INTERVAL) {
            // A failure leaves the notes to the next time.
            let _ = open::recover(&self.folder, self.used_audit_log());
        }
        let millis = record::millis(SystemTime::now());
        let id = new_id(millis);
        let audit_failure = self.audit(&Event::Started(Box::new(self.started(&id, job))))?;
        let noted = self.note(Record::new(id.clone(), millis, job), "").inspect_err(|_| {
            // The job does not run.
            drop(self.audit_end(id.clone(), Event::Interrupted { id }, "job"));
        });
        Ok(Entry { audit_failure, ..noted? })
    }

    /// Returns this journal with another use of its audit log.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// Records a cell of a session in the audit log alone, before it runs. `None` if it is not recorded.
    ///
    /// # Errors
    /// Returns an error if the cell cannot be recorded and must be. It must not be run then.
    pub fn accept_cell(
        &self,
        session: &str,
        job: Accepted<'_>,
    ) -> Result<(CellEntry, Option<AuditError>), JournalError> {
        self.accept_part(job, |started| Started { session: Some(session.to_owned()), ..started })
    }

    /// Records a command of a box in the audit log alone, before it runs.
    ///
    /// # Errors
    /// Returns an error if the command cannot be recorded and must be. It must not be run then.
    pub fn accept_command(
        &self,
        name: &str,
        job: Accepted<'_>,
    ) -> Result<(CellEntry, Option<AuditError>), JournalError> {
        self.accept_part(job, |started| Started { in_box: Some(name.to_owned()), ..started })
    }

    fn accept_part(
        &self,
        job: Accepted<'_>,
        complete: impl FnOnce(Started) -> Started,
    ) -> Result<(CellEntry, Option<AuditError>), JournalError> {
        let id = new_id(record::millis(SystemTime::now()));
        let started = complete(self.started(&id, job));
        let failure = self.audit(&Event::Started(Box::new(started)))?;
        Ok((CellEntry(self.start_part(id, failure.is_none())), failure))
    }

    /// Describes a job for the audit log.
    fn started(&self, id: &str, job: Accepted<'_>) -> Started {
        let mut started = Started::new(id, job.job, job.backend);
        started.grants.container = job.attachment.map(ContainerGiven::from);
        started.tool = job.tool.map(ToString::to_string);
        if self.records_text { started.with_text(job.job) } else { started }
    }

    /// Records a call of a tool by the user in the audit log, before the tool runs. `input` is JSON text.
    ///
    /// # Errors
    /// Returns an error if the call cannot be recorded and must be. It must not be made then.
    pub fn accept_call(&self, tool: &ToolName, input: &[u8]) -> Result<(CallEntry, Option<AuditError>), JournalError> {
        let id = new_id(record::millis(SystemTime::now()));
        let failure = self.audit(&Event::called(id.clone(), tool, input))?;
        Ok((CallEntry(self.start_part(id, failure.is_none())), failure))
    }

    /// Keeps the id of a part until its end, if its start is recorded.
    fn start_part(&self, id: String, is_recorded: bool) -> PartEntry {
        if is_recorded && self.audit != Audit::Off {
            let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = parts.start(&self.folder, &id) {
                tracing::warn!(%error, "the interruption of a part of the audit log would not be recorded");
            }
        }
        PartEntry { journal: self.clone(), id, has_ended: false }
    }

    /// Records an event that is no job in the audit log. Returns the failure to do so if the caller may go on nevertheless.
    ///
    /// # Errors
    /// Returns an error if the event cannot be recorded and must be.
    pub fn audit(&self, event: &Event) -> Result<Option<AuditError>, JournalError> {
        let Some(log) = self.used_audit_log() else { return Ok(None) };
        let added = log.add(event);
        // The records before, of jobs that other processes have left, have used the same files.
        log.release();
        match (added, self.audit) {
            (Ok(()), _) => Ok(None),
            (Err(AuditError { folder, source, .. }), Audit::Required) => {
                Err(JournalError { doing: "write the audit log of", folder, source })
            }
            (Err(error), _) => Ok(Some(error)),
        }
    }

    /// Records the end of a part whose start is recorded, now or, if that is not possible, later. Returns the reason then.
    fn audit_end(&self, id: String, event: Event, part: &str) -> Option<String> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = parts.end(&self.folder, id, event, |event| match self.audit(event) {
            Ok(None) => Ok(()),
            Ok(Some(error)) => Err(format_error_chain(&error)),
            Err(error) => Err(format_error_chain(&error)),
        });
        recorded.err().inspect(|error| tracing::warn!(error, "cannot record the end of a {part}"))
    }

    /// Returns the audit log.
    #[must_use]
    pub fn audit_log(&self) -> &AuditLog {
        &self.log
    }

    fn used_audit_log(&self) -> Option<&AuditLog> {
        (self.audit != Audit::Off).then_some(&self.log)
    }

    /// Records that this process runs a job again, after another process found that its backend lacks a feature.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`accept`](Self::accept), and if `id` is not a job's id.
    pub fn resume(&self, id: &str, job: Accepted<'_>) -> Result<Entry, JournalError> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(self.failed("write")(io::Error::other(format!("invalid job id {id:?}"))));
        }
        let started = Started { again: true, ..self.started(id, job) };
        let audit_failure = self.audit(&Event::Started(Box::new(started)))?;
        let record = Record::new(id.to_owned(), record::millis(SystemTime::now()), job);
        Ok(Entry { audit_failure, ..self.note(record, "-again")? })
    }

    fn note(&self, record: Record, suffix: &str) -> Result<Entry, JournalError> {
        let failed = self.failed("write");
        let write = || -> io::Result<Entry> {
            // The history is opened before the note is created, because a job whose note exists counts as accepted. It
            // is closed again.
            History::open(&self.folder)?;
            let note = JobMarker::create(&self.folder, &format!("{}{suffix}", record.id), &record.line())?;
            Ok(Entry { note, record, audit_failure: None })
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

/// Returns an id for a job that is accepted at this time, in milliseconds since 1970.
fn new_id(millis: u64) -> String {
    format!("{millis:011x}{:08x}", rand::random::<u32>())
}

/// A part of a process in the audit log without an end. If it is dropped, it counts as interrupted.
#[derive(Debug)]
struct PartEntry {
    journal: Journal,
    id: String,
    has_ended: bool,
}

impl PartEntry {
    fn end(mut self, event: Event, part: &str) -> Option<String> {
        self.has_ended = true;
        self.journal.audit_end(self.id.clone(), event, part)
    }
}

impl Drop for PartEntry {
    fn drop(&mut self) {
        if !self.has_ended {
            let event = Event::Interrupted { id: self.id.clone() };
            drop(self.journal.audit_end(self.id.clone(), event, "part"));
        }
    }
}

/// A cell or a command of a box in the audit log without an end. If it is dropped, it counts as interrupted.
#[derive(Debug)]
pub struct CellEntry(PartEntry);

impl CellEntry {
    /// Returns the id of the cell in the audit log.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Returns a function that records the end of the cell. A failure to record it is only logged: the cell has ended, and its report is
    /// valid.
    pub fn end(self, kind: ResultKind, status: u8, report: Option<&RunReport>) -> impl FnOnce() + Send + use<> {
        let event = End::now(kind, status, report).event(self.id());
        move || drop(self.0.end(event, "cell"))
    }
}

/// A call of a tool in the audit log without an end. If it is dropped, it counts as interrupted.
#[derive(Debug)]
pub struct CallEntry(PartEntry);

impl CallEntry {
    /// Returns the id of the call.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// Records the end of the call, for which this job has run. Returns the reason if it is not recorded now.
    pub fn end(self, result: &ToolResult, wall: Duration, job: Option<String>) -> Option<String> {
        let kind = result.as_ref().map_or_else(|failure| failure.kind.clone(), |_| ResultKind::Ok.as_str().to_owned());
        let output_bytes = result.as_ref().map_or(0, |output| output.len() as u64);
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let id = self.id().to_owned();
        self.0.end(Event::Returned { id, kind, output_bytes, wall_ms, job }, "call of a tool")
    }
}

/// A recorded job without an end. If it is dropped, the job counts as interrupted.
#[derive(Debug)]
pub struct Entry {
    note: JobMarker,
    record: Record,
    audit_failure: Option<AuditError>,
}

impl Entry {
    /// Returns the job's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Returns the reason that the job is not in the audit log, if it should be there.
    #[must_use]
    pub fn audit_failure(&self) -> Option<&AuditError> {
        self.audit_failure.as_ref()
    }

    /// Records the job's end. Returns the reason if that is not possible: the job has ended, and its report is valid.
    pub fn end(self, kind: ResultKind, status: u8, report: Option<&RunReport>) -> Option<String> {
        let error = self.note.end(End::now(kind, status, report)).err()?;
        tracing::warn!(%error, "cannot record the end of a job");
        Some(format!("cannot record its end: {error}"))
    }

    /// Records that another process now runs the job and records its end.
    pub fn hand_over_entry(self) {
        self.note.hand_over_entry();
    }
}

#[cfg(test)]
mod tests;

//! Jobs without an end: a note for each, locked by the process that runs the job, and a file for the job's end.
//!
//! A job can take over the process that runs it. That process therefore holds open only its note, for reading, and the
//! file for its own job's end. The history and other notes stay closed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::history::{self, History};
use super::parts;
use super::record::{End, Record, State};
use crate::audit::{AuditLog, Event};

/// File extension of a note whose lock is held or was held.
const NOTE: &str = "job";

/// File extension of a note that is being created and not locked yet.
pub(super) const NEW: &str = "new";

/// File extension of the file with the job's end.
const END: &str = "end";

/// First line of that file if another process now runs the job and has its own note.
const OVER: &[u8] = b"over\n";

/// Number of bytes that the file has from the start, so that the end of a job is recorded without its report if the disk is full by then.
const RESERVED: usize = 512;

/// Lock file of the process that recovers other processes' notes.
const LOCK: &str = "lock";

/// Age above which an unfinished new note is considered that of a dead process.
const STALE: Duration = Duration::from_secs(60);

/// Maximum number of bytes that are read from a file; longer than any note and any end.
const LONGEST: u64 = 256 << 10;

/// A note whose lock is held.
#[derive(Debug)]
pub(super) struct JobMarker {
    /// Note, open for reading; holds the lock.
    _locked: File,
    end: File,
    path: PathBuf,
}

impl JobMarker {
    /// Creates a note. It appears under its final name only when its lock is held, because an unlocked note counts as
    /// that of a dead process.
    pub(super) fn create(folder: &Path, name: &str, line: &[u8]) -> io::Result<Self> {
        let [new, path, end] = [NEW, NOTE, END].map(|ending| folder.join(format!("{name}.{ending}")));
        let made = || -> io::Result<(File, File)> {
            create_new(&new)?.write_all(line)?;
            let locked = File::open(&new)?;
            locked.lock()?;
            let end = create_new(&end)?;
            overwrite(&end, &[b' '; RESERVED])?;
            fs::rename(&new, &path)?;
            Ok((locked, end))
        };
        match made() {
            Ok((locked, end)) => Ok(Self { _locked: locked, end, path }),
            Err(error) => {
                let _ = fs::remove_file(&new);
                let _ = fs::remove_file(&end);
                Err(error)
            }
        }
    }

    /// Writes the end of the job, and only its result if there is no space for more.
    pub(super) fn end(self, end: End) -> io::Result<()> {
        // The line can be written in part.
        overwrite(&self.end, &end.line()).or_else(|_| overwrite(&self.end, &end.without_report().line()))
    }

    /// Writes that another process now runs the job, and removes the note if this process still has the permission.
    pub(super) fn hand_over_entry(self) {
        let _ = overwrite(&self.end, OVER);
        remove(&self.path);
    }
}

/// Writes from the beginning of a file.
fn overwrite(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.rewind()?;
    file.write_all(bytes)
}

pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// State of a job, from the end file of its note.
enum Outcome {
    /// No end: the job is running or was interrupted.
    Nothing,
    /// Another process has a note for the job.
    HandedOver,
    End(End),
}

/// Records the end of jobs of dead processes. Does nothing while another process does the same.
pub(super) fn recover(folder: &Path, audit: Option<&AuditLog>) -> io::Result<()> {
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    history::rotate(folder)?;
    if let Some(audit) = audit
        && let Err(error) = parts::recover(folder, audit)
    {
        // They wait for the next time.
        tracing::warn!(%error, "cannot record the ends of earlier parts in the audit log");
    }
    for path in notes(folder)? {
        if path.extension().is_some_and(|ending| ending == NEW) {
            let age = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > STALE) {
                remove(&path);
            }
            continue;
        }
        // After a failure to read or write, the next process that opens the journal tries again.
        let _ = record_outcome(folder, audit, &path);
    }
    Ok(())
}

fn record_outcome(folder: &Path, audit: Option<&AuditLog>, path: &Path) -> io::Result<()> {
    let file = open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    if let Some(mut record) = read(file)? {
        let outcome = outcome(path);
        // If this process is killed before it removes the note, the line is added again later; readers accept
        // duplicates.
        if !matches!(outcome, Outcome::HandedOver) {
            let event = match &outcome {
                Outcome::End(end) => end.event(&record.id),
                _ => Event::Interrupted { id: record.id.clone() },
            };
            if let Some(Err(error)) = audit.map(|audit| audit.add(&event)) {
                tracing::warn!(%error, "cannot record the end of a job in the audit log");
                // The note has the end until it is kept elsewhere.
                parts::defer(folder, &event)?;
            }
            match outcome {
                Outcome::End(end) => record.ended(end),
                _ => record.interrupted(),
            }
            History::open(folder)?.add(&record)?;
        }
    }
    remove(path);
    Ok(())
}

/// Returns the running jobs, and the ended jobs that are not in the history yet.
pub(super) fn unfinished(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in notes(folder)? {
        let Ok(file) = open(&path) else { continue };
        let is_held = file.try_lock().is_err();
        let Ok(Some(mut record)) = read(file) else { continue };
        match outcome(&path) {
            Outcome::End(end) => record.ended(end),
            Outcome::Nothing if is_held => {}
            // Another note covers the job, or the next recovery records its end.
            Outcome::HandedOver | Outcome::Nothing => continue,
        }
        records.push(record);
    }
    Ok(records)
}

/// Opens a note if it is a regular file; opening a FIFO would block.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn read(file: File) -> io::Result<Option<Record>> {
    let record: Option<Record> = serde_json::from_slice(&whole(file)?).ok();
    Ok(record.filter(|record| record.state == State::Running))
}

/// Reads the end file of a note. A program that took over the process can have written anything to it.
fn outcome(note: &Path) -> Outcome {
    let text = open(&note.with_extension(END)).and_then(whole).unwrap_or_default();
    let line = text.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    if line == OVER {
        return Outcome::HandedOver;
    }
    End::read(line).map_or(Outcome::Nothing, Outcome::End)
}

/// Returns the content of a regular file.
pub(super) fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    open(path).and_then(whole)
}

fn whole(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Removes a note and then its end file.
fn remove(note: &Path) {
    if fs::remove_file(note).is_ok() {
        let _ = fs::remove_file(note.with_extension(END));
    }
}

fn notes(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_note = |path: &PathBuf| path.extension().is_some_and(|ending| ending == NOTE || ending == NEW);
    Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.path()).filter(is_note).collect())
}

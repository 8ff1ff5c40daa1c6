//! The jobs that have no end yet: a note each, locked by whoever runs it, and a file beside it for the job's end.
//!
//! The process that runs a job can be taken over by it. So what that process holds open is the note, to read, and the
//! file for its own end; the history and the other notes are out of its reach.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::history::{self, History};
use super::record::{End, Record, State};

/// The ending of a note's name once its lock is held.
const NOTE: &str = "job";

/// And until then.
const NEW: &str = "new";

/// The ending of the name of the file that a job's end is written to.
const END: &str = "end";

/// The content of such a file if another process runs the job now, and has a note of it.
const OVER: &[u8] = b"over\n";

/// Held by whoever looks through the notes of others.
const LOCK: &str = "lock";

/// How old a note may be that was never finished before it is taken for a dead process's.
const STALE: Duration = Duration::from_secs(60);

/// Longer than any note.
const LONGEST: u64 = 64 << 10;

/// A note whose lock is held.
#[derive(Debug)]
pub(super) struct Note {
    /// Open for reading; holds the lock.
    _locked: File,
    end: File,
    path: PathBuf,
}

impl Note {
    /// Makes a note that appears under its name with its lock held: one that is free is a dead process's.
    pub(super) fn create(folder: &Path, name: &str, line: &[u8]) -> io::Result<Self> {
        let [new, path, end] = [NEW, NOTE, END].map(|ending| folder.join(format!("{name}.{ending}")));
        let made = || -> io::Result<(File, File)> {
            create_new(&new)?.write_all(line)?;
            let locked = File::open(&new)?;
            locked.lock()?;
            let end = create_new(&end)?;
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

    /// Writes how the job ended.
    pub(super) fn end(mut self, end: &End) -> io::Result<()> {
        self.end.write_all(&end.line())
    }

    /// Writes that another process runs the job now, and removes the note if this process still may.
    pub(super) fn pass_on(mut self) {
        let _ = self.end.write_all(OVER);
        remove(&self.path);
    }
}

fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// The state that the end file of a note tells of.
enum Outcome {
    /// No end: the job runs, or was interrupted.
    Nothing,
    /// Another process has a note of the job.
    PassedOn,
    End(End),
}

/// Gives jobs of dead processes their end. Nothing is done while another process is at it.
pub(super) fn recover(folder: &Path) -> io::Result<()> {
    let lock = OpenOptions::new().write(true).create(true).truncate(false).open(folder.join(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(());
    }
    history::turn_page(folder)?;
    for path in notes(folder)? {
        if path.extension().is_some_and(|ending| ending == NEW) {
            let age = fs::symlink_metadata(&path).and_then(|meta| meta.modified()).map(|at| at.elapsed());
            if matches!(age, Ok(Ok(age)) if age > STALE) {
                remove(&path);
            }
            continue;
        }
        // What cannot be read, or written down, now is tried again by whoever comes next.
        let _ = settle(folder, &path);
    }
    Ok(())
}

fn settle(folder: &Path, path: &Path) -> io::Result<()> {
    let file = open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    if let Some(mut record) = read(file)? {
        let outcome = outcome(path);
        // A process that is killed before the note is removed leaves it to be added again, which readers allow for.
        if !matches!(outcome, Outcome::PassedOn) {
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

/// The jobs that somebody runs, and those whose end is not in the history yet.
pub(super) fn unsettled(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in notes(folder)? {
        let Ok(file) = open(&path) else { continue };
        let is_held = file.try_lock().is_err();
        let Ok(Some(mut record)) = read(file) else { continue };
        match outcome(&path) {
            Outcome::End(end) => record.ended(end),
            Outcome::Nothing if is_held => {}
            // Another note tells of it, or it is given its end by whoever comes next.
            Outcome::PassedOn | Outcome::Nothing => continue,
        }
        records.push(record);
    }
    Ok(records)
}

/// Opens a note; what is no file is none, and a FIFO would be waited at.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn read(file: File) -> io::Result<Option<Record>> {
    let record: Option<Record> = serde_json::from_slice(&whole(file)?).ok();
    Ok(record.filter(|record| record.state == State::Running))
}

/// Reads the file beside a note. A program that took its process over can have written anything there.
fn outcome(note: &Path) -> Outcome {
    let text = open(&note.with_extension(END)).and_then(whole).unwrap_or_default();
    if text.ends_with(OVER) {
        return Outcome::PassedOn;
    }
    End::read(&text).map_or(Outcome::Nothing, Outcome::End)
}

fn whole(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}

/// Removes a note and then what belongs to it.
fn remove(note: &Path) {
    if fs::remove_file(note).is_ok() {
        let _ = fs::remove_file(note.with_extension(END));
    }
}

fn notes(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_note = |path: &PathBuf| path.extension().is_some_and(|ending| ending == NOTE || ending == NEW);
    Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.path()).filter(is_note).collect())
}

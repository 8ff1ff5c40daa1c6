//! The jobs that have no end yet: a file each, locked by whoever runs it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::history::{self, History};
use super::record::{Record, State};

/// The ending of a note's name once its lock is held.
const NOTE: &str = "job";

/// And until then.
const NEW: &str = "new";

/// What a note ends with whose job is over.
pub(super) const OVER: &[u8] = b"over\n";

/// Held by whoever looks through the notes of others.
const LOCK: &str = "lock";

/// How old a note may be that was never finished before it is taken for a dead process's.
const STALE: Duration = Duration::from_secs(60);

/// Longer than any note.
const LONGEST: u64 = 64 << 10;

/// Makes a note that appears under its name with its lock held: one that is free is a dead process's.
pub(super) fn create(folder: &Path, name: &str, line: &[u8]) -> io::Result<(File, PathBuf)> {
    let (new, path) = (folder.join(format!("{name}.{NEW}")), folder.join(format!("{name}.{NOTE}")));
    let made = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.lock()?;
        file.write_all(line)?;
        fs::rename(&new, &path)?;
        Ok(file)
    };
    made().inspect_err(|_| drop(fs::remove_file(&new))).map(|file| (file, path))
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
                let _ = fs::remove_file(&path);
            }
            continue;
        }
        // What cannot be read, or written down, now is tried again by whoever comes next.
        let _ = settle(folder, &path);
    }
    Ok(())
}

fn settle(folder: &Path, path: &Path) -> io::Result<()> {
    let mut file = open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    if let (Some(mut record), false) = read(&mut file)? {
        // Killed after the end was told, and before it was noted here.
        let told = |known: &Record| known.id == record.id && known.state == State::Finished;
        if !history::read(folder)?.iter().any(told) {
            if record.state != State::Finished {
                record.interrupted();
            }
            History::open(folder)?.add(&record)?;
        }
    }
    fs::remove_file(path)
}

/// The jobs that somebody runs.
pub(super) fn running(folder: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for path in notes(folder)? {
        let Ok(mut file) = open(&path) else { continue };
        if file.try_lock().is_err()
            && let Ok((Some(record), false)) = read(&mut file)
        {
            records.push(record);
        }
    }
    Ok(records)
}

/// Opens a note; what is no file is none, and a FIFO would be waited at.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_file() { File::open(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// What a note says, and whether it says that the job is over.
fn read(file: &mut File) -> io::Result<(Option<Record>, bool)> {
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    // Of two lines the second is the end, which the history did not take.
    let mut records = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    Ok((records.next_back(), text.ends_with(OVER)))
}

fn notes(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let is_note = |path: &PathBuf| path.extension().is_some_and(|ending| ending == NOTE || ending == NEW);
    Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.path()).filter(is_note).collect())
}

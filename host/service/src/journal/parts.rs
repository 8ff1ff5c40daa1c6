//! Parts of a process in the audit log that have no end yet: cells, commands of boxes and calls of tools.
//!
//! A process keeps them in a file that it holds a lock on. A file without a lock belongs to a process that has ended: the parts in it were
//! interrupted. Events that could not be added to the log wait in files of their own.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::open::{NEW, create_new, read_whole};
use crate::audit::{AuditLog, Event};

/// File extension of a list of parts.
const OPEN: &str = "open";

/// File extension of an event that is not in the log.
const EVENT: &str = "event";

/// Maximum number of events that wait.
const MAX_WAITING: usize = 1000;

/// The parts of this process.
#[derive(Debug, Default)]
pub(super) struct Parts {
    list: Option<OpenParts>,
    /// Ends that could neither be added to the log nor kept in a file, with the ids of their parts.
    unrecorded: VecDeque<(String, Event)>,
}

impl Parts {
    /// Adds a part that starts.
    pub(super) fn start(&mut self, folder: &Path, id: &str) -> io::Result<()> {
        OpenParts::start(&mut self.list, folder, id)
    }

    /// Ends a part. `add` adds an event to the log. An event that cannot be added waits in a file, and without space for that in this process, which
    /// tries again with the next end. The part stays in the list meanwhile.
    pub(super) fn end(
        &mut self,
        folder: &Path,
        id: String,
        event: Event,
        add: impl Fn(&Event) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.unrecorded.len() < MAX_WAITING {
            self.unrecorded.push_back((id, event));
        }
        let mut failure = Ok(());
        while let Some((id, event)) = self.unrecorded.front() {
            if let Err(error) = add(event) {
                failure = Err(error);
                if defer(folder, event).is_err() {
                    break;
                }
            }
            if let Some(list) = &mut self.list
                && let Err(error) = list.end(id)
            {
                tracing::warn!(%error, "cannot change the list of the parts of the audit log");
            }
            self.unrecorded.pop_front();
        }
        failure
    }
}

/// List of the parts of this process in a file.
#[derive(Debug)]
struct OpenParts {
    path: PathBuf,
    /// The list, locked.
    file: File,
    ids: BTreeSet<String>,
}

impl OpenParts {
    /// Creates the list. It appears under its final name only when its lock is held.
    fn create(folder: &Path) -> io::Result<Self> {
        let name = format!("{}-{:08x}", std::process::id(), rand::random::<u32>());
        let [new, path] = [NEW, OPEN].map(|ending| folder.join(format!("{name}.{ending}")));
        let made = create_new(&new).and_then(|file| {
            file.lock()?;
            fs::rename(&new, &path)?;
            Ok(file)
        });
        let file = made.inspect_err(|_| drop(fs::remove_file(&new)))?;
        Ok(Self { path, file, ids: BTreeSet::new() })
    }

    /// Adds a part that starts.
    fn start(parts: &mut Option<Self>, folder: &Path, id: &str) -> io::Result<()> {
        let parts = match parts {
            Some(parts) => parts,
            None => parts.insert(Self::create(folder)?),
        };
        parts.file.write_all(format!("+{id}\n").as_bytes())?;
        parts.ids.insert(id.to_owned());
        Ok(())
    }

    /// Removes a part that has ended. The list is emptied with its last part.
    fn end(&mut self, id: &str) -> io::Result<()> {
        self.ids.remove(id);
        if self.ids.is_empty() {
            self.file.set_len(0)?;
            return self.file.seek(SeekFrom::Start(0)).map(drop);
        }
        self.file.write_all(format!("-{id}\n").as_bytes())
    }
}

impl Drop for OpenParts {
    fn drop(&mut self) {
        if self.ids.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Keeps an event that could not be added to the log until that is possible again.
pub(super) fn defer(folder: &Path, event: &Event) -> io::Result<()> {
    if waiting(folder)?.len() >= MAX_WAITING {
        return Err(io::Error::other("too many records wait"));
    }
    let name =
        format!("{}-{:08x}", super::new_id(super::record::millis(std::time::SystemTime::now())), rand::random::<u32>());
    let [new, path] = [NEW, EVENT].map(|ending| folder.join(format!("{name}.{ending}")));
    let written = create_new(&new).and_then(|mut file| {
        file.write_all(&serde_json::to_vec(event)?)?;
        fs::rename(&new, &path)
    });
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Adds the events that wait to the log, and the ends of parts whose processes are gone.
pub(super) fn recover(folder: &Path, log: &AuditLog) -> io::Result<()> {
    for path in waiting(folder)? {
        let text = read_whole(&path)?;
        if let Ok(event) = serde_json::from_slice::<Event>(&text) {
            log.add(&event).map_err(|error| error.source)?;
        }
        fs::remove_file(&path)?;
    }
    for path in with_extension(folder, OPEN)? {
        let mut file = File::open(&path)?;
        if file.try_lock().is_err() {
            continue;
        }
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut ids = BTreeSet::new();
        for line in text.lines() {
            match line.split_at_checked(1) {
                Some(("+", id)) => drop(ids.insert(id.to_owned())),
                Some(("-", id)) => drop(ids.remove(id)),
                _ => {}
            }
        }
        for id in ids {
            log.add(&Event::Interrupted { id }).map_err(|error| error.source)?;
        }
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Returns the files of the events that wait, the oldest first.
fn waiting(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = with_extension(folder, EVENT)?;
    files.sort_unstable();
    Ok(files)
}

fn with_extension(folder: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    Ok(files.filter(|path| path.extension().is_some_and(|ending| ending == extension)).collect())
}

//! What engines said of themselves, kept between runs: one of them takes half a second to say it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::discover::Place;
use crate::facts::EngineFacts;
use crate::labels::boot;

/// How long something kept is believed; an engine can be configured anew without another version.
const FRESH: Duration = Duration::from_secs(3600);

/// How long an engine that did not answer is not asked again. Both backends look at the same places.
const SILENCE: Duration = Duration::from_secs(30);

/// A folder with a file for each engine, and the places of those that did not answer this process.
#[derive(Debug)]
pub(crate) struct Notes {
    folder: PathBuf,
    boot: String,
    silent: Mutex<Vec<(Place, Instant)>>,
}

#[derive(Serialize, Deserialize)]
struct Note {
    /// Which socket it was: an engine that is started anew has another.
    socket: String,
    boot: String,
    facts: EngineFacts,
}

impl Notes {
    pub(crate) fn below(folder: PathBuf) -> Self {
        Self { folder, boot: boot(), silent: Mutex::default() }
    }

    /// Remembers that whoever listens at a place did not answer.
    pub(crate) fn silent(&self, place: &Place) {
        let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.retain(|(other, _)| other != place);
        silent.push((place.clone(), Instant::now()));
    }

    /// Whether it did not answer a moment ago.
    pub(crate) fn is_silent(&self, place: &Place) -> bool {
        let silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.iter().any(|(other, since)| other == place && since.elapsed() < SILENCE)
    }

    /// What was kept of the engine at a place, if the same socket is still there.
    pub(crate) fn read(&self, place: &Place) -> Option<EngineFacts> {
        let path = self.path(place);
        let age = fs::symlink_metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
        let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let same = note.socket == socket(place)? && note.boot == self.boot && note.facts.place == place.to_string();
        (age < FRESH && same).then_some(note.facts)
    }

    /// Keeps it; where that fails it is asked again next time.
    pub(crate) fn write(&self, place: &Place, facts: &EngineFacts) {
        let Some(socket) = socket(place) else { return };
        let note = Note { socket, boot: self.boot.clone(), facts: facts.clone() };
        let write = || -> std::io::Result<()> {
            codebox_files::private_dir(&self.folder)?;
            let mut file = tempfile::Builder::new().prefix(".note-").tempfile_in(&self.folder)?;
            file.write_all(&serde_json::to_vec(&note)?)?;
            file.persist(self.path(place))?;
            Ok(())
        };
        let _ = write();
    }

    fn path(&self, place: &Place) -> PathBuf {
        let digest = Sha256::digest(place.to_string());
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.json"))
    }
}

/// What tells a socket from one that was there before it; engines elsewhere are always asked.
#[cfg(unix)]
fn socket(place: &Place) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let Place::Unix(path) = place else { return None };
    let meta = fs::metadata(path).ok()?;
    Some(format!("{} {} {} {}", meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(not(unix))]
fn socket(_place: &Place) -> Option<String> {
    None
}

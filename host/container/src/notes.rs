//! What engines said of themselves, kept between runs: one of them takes half a second to say it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::discover::Place;
use crate::facts::EngineFacts;
use crate::labels::boot;

/// How long something kept is believed; an engine can be configured anew without another version.
const FRESH: Duration = Duration::from_secs(3600);

/// A folder with a file for each engine.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    folder: PathBuf,
    boot: String,
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
        Self { folder, boot: boot() }
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

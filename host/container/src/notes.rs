//! What engines said of themselves, kept between runs: one of them takes half a second to say it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

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
    /// What the engine says of its version, in whatever form: another one makes the note worthless.
    told: String,
    boot: String,
    facts: EngineFacts,
}

impl Notes {
    pub(crate) fn below(folder: PathBuf) -> Self {
        Self { folder, boot: boot() }
    }

    /// What was kept of the engine at `place`, if it still says `told` of itself.
    pub(crate) fn read(&self, place: &str, told: &str) -> Option<EngineFacts> {
        let path = self.path(place);
        let age = fs::symlink_metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
        let note: Note = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        (age < FRESH && note.told == told && note.boot == self.boot && note.facts.place == place).then_some(note.facts)
    }

    /// Keeps it; where that fails it is asked again next time.
    pub(crate) fn write(&self, facts: &EngineFacts, told: &str) {
        let note = Note { told: told.to_owned(), boot: self.boot.clone(), facts: facts.clone() };
        let write = || -> std::io::Result<()> {
            codebox_files::private_dir(&self.folder)?;
            let mut file = tempfile::Builder::new().prefix(".note-").tempfile_in(&self.folder)?;
            file.write_all(&serde_json::to_vec(&note)?)?;
            file.persist(self.path(&facts.place))?;
            Ok(())
        };
        let _ = write();
    }

    fn path(&self, place: &str) -> PathBuf {
        let digest = Sha256::digest(place);
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.json"))
    }
}

//! Cache of engine facts between runs. One of the engines takes half a second to report its facts.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::discover::EngineAddress;
use crate::facts::EngineFacts;
use crate::labels::boot;

/// Lifetime of a cached entry. The configuration of an engine can change without a new version.
const CACHE_LIFETIME: Duration = Duration::from_secs(3600);

/// Time for which an engine that did not answer is not queried again. Both backends try the same addresses.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Cache directory with one file per engine, and the addresses that did not answer this process.
#[derive(Debug)]
pub(crate) struct FactsCache {
    folder: PathBuf,
    boot: String,
    unresponsive: Mutex<Vec<(EngineAddress, Instant)>>,
}

#[derive(Serialize, Deserialize)]
struct CachedFacts {
    /// Identity of the socket, which changes when the engine is restarted.
    socket: String,
    boot: String,
    facts: EngineFacts,
}

impl FactsCache {
    pub(crate) fn in_dir(folder: PathBuf) -> Self {
        Self { folder, boot: boot(), unresponsive: Mutex::default() }
    }

    /// Records that the engine at an address did not answer.
    pub(crate) fn unresponsive(&self, place: &EngineAddress) {
        let mut unresponsive = self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner);
        unresponsive.retain(|(other, _)| other != place);
        unresponsive.push((place.clone(), Instant::now()));
    }

    /// Returns true if the engine at an address has recently not answered.
    pub(crate) fn is_unresponsive(&self, place: &EngineAddress) -> bool {
        let unresponsive = self.unresponsive.lock().unwrap_or_else(PoisonError::into_inner);
        unresponsive.iter().any(|(other, since)| other == place && since.elapsed() < RETRY_DELAY)
    }

    /// Returns the cached facts about the engine at an address, if they are fresh and the socket is the same.
    pub(crate) fn read(&self, place: &EngineAddress) -> Option<EngineFacts> {
        let path = self.path(place);
        let age = fs::symlink_metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
        let entry: CachedFacts = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        let same = entry.socket == socket(place)? && entry.boot == self.boot && entry.facts.place == place.to_string();
        (age < CACHE_LIFETIME && same).then_some(entry.facts)
    }

    /// Caches facts. If writing fails, the engine is queried again next time.
    pub(crate) fn write(&self, place: &EngineAddress, facts: &EngineFacts) {
        let Some(socket) = socket(place) else { return };
        let entry = CachedFacts { socket, boot: self.boot.clone(), facts: facts.clone() };
        let write = || -> std::io::Result<()> {
            codebox_files::private_dir(&self.folder)?;
            let mut file = tempfile::Builder::new().prefix(".note-").tempfile_in(&self.folder)?;
            file.write_all(&serde_json::to_vec(&entry)?)?;
            file.persist(self.path(place))?;
            Ok(())
        };
        let _ = write();
    }

    fn path(&self, place: &EngineAddress) -> PathBuf {
        self.file(&place.to_string(), "json")
    }

    /// Returns the path of a file for the engine at an address.
    pub(crate) fn file(&self, place: &str, extension: &str) -> PathBuf {
        let digest = Sha256::digest(place);
        let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.{extension}"))
    }
}

/// Returns the identity of a socket, which a new socket at the same path does not share. Engines at other addresses
/// have none and are always queried.
#[cfg(unix)]
fn socket(place: &EngineAddress) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let EngineAddress::Unix(path) = place else { return None };
    let meta = fs::metadata(path).ok()?;
    Some(format!("{} {} {} {}", meta.dev(), meta.ino(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(not(unix))]
fn socket(_place: &EngineAddress) -> Option<String> {
    None
}

//! Records of sessions on disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codebox_core::{Job, RunnerError, SessionContainer};
use codebox_runner::{Checkpoint, Course};
use codebox_service::Request;
use serde::{Deserialize, Serialize};

/// File of a session's record, in the directory of the session.
const RECORD: &str = "session.json";

/// Version of the form.
const VERSION: u32 = 1;

/// Record of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    version: u32,
    /// Time at which the session was created, in seconds since 1970.
    pub created: u64,
    /// Job with the language, grants, limits and packages of the session.
    pub job: Job,
    /// Container of the session, if it has one.
    #[serde(default)]
    pub container: SessionContainer,
    /// Checkpoints by name, the latest last.
    pub checkpoints: Vec<StoredCheckpoint>,
    /// State that was saved last, under a name or because the session was parked: the next interpreter starts with it.
    pub last: Option<StoredCheckpoint>,
    /// True if an interpreter has state that is not saved.
    pub has_unsaved_state: bool,
    /// True if a cell has run since the session was created, restored or forked.
    pub has_run: bool,
    /// Time of the last change of the record, in seconds since 1970.
    pub used: u64,
    /// Course of the last suspended cell that has ended. Its journal may still exist.
    #[serde(default)]
    pub ended_course: Option<Course>,
}

/// Checkpoint in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredCheckpoint {
    pub name: String,
    /// Name of the directory, in that of the session.
    pub dir: String,
    /// Memory image that the state extends.
    pub image: String,
}

impl StoredCheckpoint {
    /// Returns the record of a saved state, which is in a directory of the session. A parked session may have been saved to another directory
    /// than the one that was requested last.
    pub(crate) fn of(name: &str, saved: &Checkpoint) -> Self {
        let dir = saved.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self { name: name.to_owned(), dir, image: saved.image().to_owned() }
    }
}

impl Stored {
    pub(crate) fn new(job: Job, created: u64) -> Self {
        let checkpoints = Vec::new();
        Self {
            version: VERSION,
            created,
            job,
            container: SessionContainer::default(),
            checkpoints,
            last: None,
            has_unsaved_state: false,
            has_run: false,
            used: created,
            ended_course: None,
        }
    }

    /// Returns the request of the session.
    pub(crate) fn request(&self) -> Result<Request, RunnerError> {
        let SessionContainer { image, engine } = self.container.clone();
        Ok(Request { image, engine, ..Request::try_from(self.job.clone())? })
    }

    /// Reads the record of a session.
    pub(crate) fn read(dir: &Path) -> io::Result<Self> {
        let text = fs::read(dir.join(RECORD))?;
        let stored: Self = serde_json::from_slice(&text).map_err(io::Error::other)?;
        if stored.version != VERSION {
            return Err(io::Error::other(format!("the record has version {}", stored.version)));
        }
        // Directories are removed by these names.
        let is_number = |one: &StoredCheckpoint| !one.dir.is_empty() && one.dir.bytes().all(|c| c.is_ascii_digit());
        if !stored.checkpoints.iter().chain(&stored.last).all(is_number) {
            return Err(io::Error::other("the record names another directory"));
        }
        Ok(stored)
    }

    /// Writes the record of a session, without the values of its secrets, in one step.
    pub(crate) fn write(&self, dir: &Path) -> io::Result<()> {
        let new: PathBuf = dir.join("session.json.new");
        let mut record = self.clone();
        record.job.grants.secrets.iter_mut().for_each(|secret| secret.value = None);
        fs::write(&new, serde_json::to_vec(&record).map_err(io::Error::other)?)?;
        fs::rename(new, dir.join(RECORD))
    }

    /// Writes the record of a session through to the disk.
    pub(crate) fn sync(dir: &Path) -> io::Result<()> {
        fs::File::open(dir.join(RECORD))?.sync_all()?;
        fs::File::open(dir)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::{SecretGrant, SecretName, SecretValue};

    use super::*;

    #[test]
    fn records_round_trip() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(Stored::read(dir.path()).expect_err("there is none").kind(), io::ErrorKind::NotFound);
        let mut stored = Stored::new(Job::python("x"), 7);
        let checkpoint = StoredCheckpoint { name: "a".to_owned(), dir: "1".to_owned(), image: "python".to_owned() };
        stored.last = Some(checkpoint.clone());
        stored.checkpoints.push(checkpoint);
        stored.write(dir.path()).expect("it is written");
        assert_eq!(Stored::read(dir.path()).expect("it is read"), stored);
        let name = SecretName::new("TOKEN").expect("a name");
        let value = SecretValue::new("sk-12345678").ok();
        stored.job.grants.secrets.push(SecretGrant { name, value, hosts: Vec::new() });
        stored.write(dir.path()).expect("it is written");
        assert!(!fs::read_to_string(dir.path().join(RECORD)).expect("it is read").contains("sk-"));
        assert_eq!(Stored::read(dir.path()).expect("it is read").job.grants.secrets[0].value, None);
        stored.checkpoints[0].dir = "../other".to_owned();
        stored.write(dir.path()).expect("it is written");
        assert!(Stored::read(dir.path()).is_err());
        fs::write(dir.path().join(RECORD), "{").expect("it is ours");
        assert!(Stored::read(dir.path()).is_err());
    }
}

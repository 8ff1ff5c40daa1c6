//! Saved states of sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::SessionDir;

/// Saved state of a session, in a directory that is removed when the last copy of this value is dropped.
#[derive(Clone)]
pub struct Checkpoint {
    name: String,
    saved: Arc<Saved>,
}

struct Saved {
    dir: PathBuf,
    /// Memory image that the saved state extends.
    image: String,
    _owner: Arc<SessionDir>,
}

impl Checkpoint {
    pub(super) fn new(name: String, dir: PathBuf, image: String, owner: Arc<SessionDir>) -> Self {
        Self { name, saved: Arc::new(Saved { dir, image, _owner: owner }) }
    }

    pub(super) fn renamed(&self, name: String) -> Self {
        Self { name, saved: Arc::clone(&self.saved) }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the memory image that the state extends.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.saved.image
    }

    pub(super) fn dir(&self) -> &Path {
        &self.saved.dir
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        // What cannot be removed is removed with the private directory of the process.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns a name that no other checkpoint of this process has.
pub(super) fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

//! Removal of directories that killed processes left behind.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::LOCK;
use crate::remove::remove_tree;
use crate::sys::set_nofollow;

/// Removes all scratch directories of dead processes below `dir`, which is at `parent`.
pub(super) fn sweep(dir: &Dir, parent: &Path) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = parent.join(&name);
        let dead = match open_regular(&path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            // A directory without a lock is being created, or its process was killed while creating or removing it.
            Err(_) => fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 60)),
        };
        if dead {
            let _ = remove_tree(dir, &name);
        }
    }
}

/// Opens a file without following a link. Never blocks on a FIFO.
fn open_regular(path: &Path) -> io::Result<File> {
    set_nofollow(fs::OpenOptions::new().read(true)).open(path)
}

/// Returns true if the process of the scratch directory at `path` lives, which means that its lock is held.
///
/// A directory that is being created has no lock yet and counts as not owned.
#[must_use]
pub fn is_in_use(path: &Path) -> bool {
    // Taking a free lock for a moment is harmless, because its owner is dead.
    open_regular(&path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err())
}

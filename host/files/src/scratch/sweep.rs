//! Removes what processes that were killed left behind.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::LOCK;
use crate::remove::remove_tree;
use crate::sys::open_itself;

/// Removes every process's directory below `dir`, which is at `parent`, whose process lives no more.
pub(super) fn sweep(dir: &Dir, parent: &Path) {
    for entry in dir.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let path = parent.join(&name);
        let dead = match open_regular(&path.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            // A directory without a lock is being made, or was left by a process killed while it made or removed it.
            Err(_) => fs::metadata(&path)
                .and_then(|meta| meta.modified())
                .is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() > 60)),
        };
        if dead {
            let _ = remove_tree(dir, &name);
        }
    }
}

/// Opens a file that stands there itself; never waits for a FIFO's other end.
fn open_regular(path: &Path) -> io::Result<File> {
    open_itself(fs::OpenOptions::new().read(true)).open(path)
}

/// Whether the process that has its private directory at `path` lives: somebody holds its lock.
///
/// A directory that is being made has no lock yet; it is nobody's until then.
#[must_use]
pub fn is_owned(path: &Path) -> bool {
    // A lock that is free is taken for a moment only: its owner never comes back.
    open_regular(&path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err())
}

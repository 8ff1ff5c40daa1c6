//! Locks on a directory tree: any number of processes may add to it at once, and only one at a time may remove from it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Acquires a shared lock on the tree at `root`, for adding to it. While it is held, removal waits.
pub(crate) fn beside_others(root: &Path) -> io::Result<File> {
    let file = open(root)?;
    file.lock_shared()?;
    Ok(file)
}

/// Acquires an exclusive lock on the tree at `root`, for removing from it. Calls `waits` once before blocking if the
/// lock is held elsewhere.
pub(crate) fn alone(root: &Path, waits: &dyn Fn()) -> io::Result<File> {
    locked(open(root)?, waits)
}

/// Locks a file exclusively. Calls `waits` once before blocking if the lock is held elsewhere.
pub(crate) fn locked(file: File, waits: &dyn Fn()) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            waits();
            file.lock()?;
        }
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(file)
}

fn open(root: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(root.join("lock"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn many_add_at_once_and_one_removes_alone() {
        let root = tempfile::tempdir().expect("a directory");
        let one = beside_others(root.path()).expect("a turn");
        let other = beside_others(root.path()).expect("a turn beside it");
        let (waiting, waits) = channel();
        let path = root.path().to_owned();
        let removing = thread::spawn(move || alone(&path, &|| waiting.send(()).expect("a listener")).map(drop));
        waits.recv().expect("that it waits");
        drop((one, other));
        removing.join().expect("an end").expect("a turn");
        let told = Cell::new(false);
        alone(root.path(), &|| told.set(true)).map(drop).expect("a turn at once");
        assert!(!told.get());
    }
}

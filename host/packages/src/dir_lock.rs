//! Locks on a directory tree: any number of processes may add to it at once, and only one at a time may remove from it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Acquires a shared lock on the tree at `root`, for adding to it. While it is held, removal waits.
pub(crate) fn acquire_shared_lock(root: &Path) -> io::Result<File> {
    let file = open(root)?;
    file.lock_shared()?;
    Ok(file)
}

/// Acquires an exclusive lock on the tree at `root`, for removing from it. Calls `on_wait` once before blocking if the
/// lock is held elsewhere.
pub(crate) fn acquire_exclusive_lock(root: &Path, on_wait: &dyn Fn()) -> io::Result<File> {
    lock_exclusive(open(root)?, on_wait)
}

/// Locks a file exclusively. Calls `on_wait` once before blocking if the lock is held elsewhere.
pub(crate) fn lock_exclusive(file: File, on_wait: &dyn Fn()) -> io::Result<File> {
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            on_wait();
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
    fn exclusive_lock_waits_for_shared_locks() {
        let root = tempfile::tempdir().expect("a directory");
        let one = acquire_shared_lock(root.path()).expect("the lock is acquired");
        let other = acquire_shared_lock(root.path()).expect("a second shared lock is acquired");
        let (wait_sender, on_wait) = channel();
        let path = root.path().to_owned();
        let removing = thread::spawn(move || {
            acquire_exclusive_lock(&path, &|| wait_sender.send(()).expect("the test receives the message")).map(drop)
        });
        on_wait.recv().expect("the thread waits for the lock");
        drop((one, other));
        removing.join().expect("the thread does not panic").expect("the lock is acquired");
        let waited = Cell::new(false);
        acquire_exclusive_lock(root.path(), &|| waited.set(true)).map(drop).expect("the lock is free");
        assert!(!waited.get());
    }
}

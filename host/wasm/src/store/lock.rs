//! The store's lock: one process at a time changes the store, and the others wait.

use std::fs::{File, OpenOptions};
use std::path::Path;

use codebox_files::private_dir;

use crate::error::WasmError;

/// Guard that holds the store's lock until it is dropped. The system also releases the lock of a process that dies.
pub(crate) struct StoreLock(#[expect(dead_code, reason = "the open file is the lock")] File);

impl StoreLock {
    /// Acquires the lock, unless another process or thread holds it or the lock cannot be opened.
    pub(crate) fn try_acquire(dir: &Path) -> Option<Self> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join("lock")).ok()?;
        file.try_lock().ok()?;
        Some(Self(file))
    }

    /// Acquires the lock. Calls `on_wait` first if another process holds it.
    pub(crate) fn acquire(dir: &Path, on_wait: impl FnOnce()) -> Result<Self, WasmError> {
        private_dir(dir).map_err(WasmError::io("create", dir))?;
        let path = dir.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(WasmError::io("open", &path))?;
        if let Err(busy) = file.try_lock() {
            match busy {
                std::fs::TryLockError::WouldBlock => on_wait(),
                std::fs::TryLockError::Error(e) => return Err(WasmError::io("lock", &path)(e)),
            }
            file.lock().map_err(WasmError::io("lock", &path))?;
        }
        Ok(Self(file))
    }
}

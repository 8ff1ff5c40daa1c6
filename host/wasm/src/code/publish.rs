//! Memory protection of compiled code.

use std::cell::Cell;

use wasmtime::CustomCodeMemory;

use crate::sys;

thread_local! {
    /// True while the calling thread loads code from memory that is executable already.
    static IS_EXECUTABLE: Cell<bool> = const { Cell::new(false) };
}

/// Makes compiled code executable, unless it lies in memory that was mapped executable.
pub(crate) struct CodePublisher;

impl CustomCodeMemory for CodePublisher {
    fn required_alignment(&self) -> usize {
        sys::page_size()
    }

    fn publish_executable(&self, at: *const u8, len: usize) -> wasmtime::Result<()> {
        if IS_EXECUTABLE.get() {
            return Ok(());
        }
        // SAFETY: the engine owns this memory, has filled it with compiled code and made it read-only.
        Ok(unsafe { sys::make_executable(at, len) }?)
    }

    /// Changes nothing: the engine unmaps its memory next, and a mapping of a file stays as it is.
    fn unpublish_executable(&self, _at: *const u8, _len: usize) -> wasmtime::Result<()> {
        Ok(())
    }
}

/// Runs a function that loads code from memory that is executable already.
pub(super) fn already_executable<T>(load: impl FnOnce() -> T) -> T {
    IS_EXECUTABLE.set(true);
    let loaded = load();
    IS_EXECUTABLE.set(false);
    loaded
}

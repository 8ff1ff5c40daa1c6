//! Memory protection of compiled code.

use std::cell::Cell;

use wasmtime::CustomCodeMemory;
use wasmtime_internal_jit_icache_coherence::{clear_cache, pipeline_flush_mt};

use crate::sys;

thread_local! {
    /// True while the calling thread loads code from memory that is executable already.
    static IS_EXECUTABLE: Cell<bool> = const { Cell::new(false) };
}

/// Makes compiled code executable, unless it lies in memory that was mapped executable.
///
/// On processors whose instruction cache does not follow writes to memory, the cache is updated as the engine does itself.
pub(crate) struct CodePublisher;

impl CustomCodeMemory for CodePublisher {
    fn required_alignment(&self) -> usize {
        sys::page_size()
    }

    fn publish_executable(&self, at: *const u8, len: usize) -> wasmtime::Result<()> {
        if IS_EXECUTABLE.get() {
            return Ok(pipeline_flush_mt()?);
        }
        // SAFETY: the engine owns this memory, has filled it with compiled code and made it read-only.
        unsafe {
            clear_cache(at.cast(), len)?;
            sys::make_executable(at, len)?;
        }
        Ok(pipeline_flush_mt()?)
    }

    /// Changes nothing: the engine unmaps its memory next, and a mapping of a file stays as it is.
    fn unpublish_executable(&self, _at: *const u8, _len: usize) -> wasmtime::Result<()> {
        Ok(())
    }
}

/// Runs a function that loads code from memory that is executable already.
pub(super) fn already_executable<T>(load: impl FnOnce() -> T) -> T {
    /// Resets the flag, also after a panic.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            IS_EXECUTABLE.set(false);
        }
    }
    IS_EXECUTABLE.set(true);
    let _reset = Reset;
    load()
}

//! Systems on which guests are not diverted. Their code checks for interruption itself.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::{AsContextMut, Func};

use super::DivertibleCode;

/// True if this system can divert guests.
pub(crate) const DIVERTS: bool = false;

/// No value of this type exists.
pub(crate) struct Divertible(Infallible);

/// Guard of a poll. No value is ever created.
pub(crate) struct Entered;

impl Divertible {
    /// Returns no handle.
    ///
    /// # Errors
    /// None.
    ///
    /// # Safety
    /// As on other systems; on this system, the call is always sound.
    pub(crate) unsafe fn new(_: Arc<dyn DivertibleCode>, _: Func, _: impl AsContextMut) -> io::Result<Option<Self>> {
        Ok(None)
    }

    pub(crate) fn enter(&self) -> Entered {
        match self.0 {}
    }

    pub(crate) fn thread(&self) -> Option<i32> {
        match self.0 {}
    }

    pub(crate) fn divert(&self) {
        match self.0 {}
    }

    pub(crate) fn is_diverted(&self) -> bool {
        match self.0 {}
    }
}

/// Returns the processor time of a thread of this process, if the thread exists.
pub(crate) fn cpu_time_of_thread(_: i32) -> Option<Duration> {
    None
}

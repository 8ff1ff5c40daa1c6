//! Ctrl-C and its like: once ends the program and leaves its report, twice leaves it no time, three times ends this process.

use std::sync::atomic::{AtomicU32, Ordering};

use codebox_core::{CancelToken, exit};

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::Signals;
#[cfg(unix)]
pub(crate) use unix::Signals;

impl Signals {
    /// Makes them throw this switch from now on.
    ///
    /// Called behind the walls: a handler writes a byte to a pipe, and a thread of its own reads it. Where that cannot be
    /// installed, they keep ending the process on the spot.
    pub(crate) fn cancel(self, token: CancelToken) {
        let count = AtomicU32::new(0);
        self.each(move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => token.cancel(),
            1 => token.again().cancel(),
            _ => std::process::exit(i32::from(exit::CANCELLED)),
        });
    }
}

//! Handling of `SIGINT` and similar signals: the first cancels the program and keeps its report, the second ends the
//! program's grace period, and the third ends this process.

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
    /// Cancels `token` at each signal from now on.
    ///
    /// Called after the process has confined itself: a handler writes a byte to a pipe, which a separate thread reads.
    /// If that cannot be installed, the signals keep ending the process immediately.
    pub(crate) fn cancel(self, token: CancelToken) {
        let count = AtomicU32::new(0);
        self.each(move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => token.cancel(),
            1 => token.forced_token().cancel(),
            _ => {
                crate::run_terminal::restore();
                std::process::exit(i32::from(exit::CANCELLED))
            }
        });
    }
}

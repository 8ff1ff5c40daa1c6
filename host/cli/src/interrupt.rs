//! Ctrl-C: once ends the program and leaves its report, twice ends this process.

use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::{CancelToken, exit};

/// Makes `SIGINT` throw this switch from now on.
///
/// Called behind the walls: the handler writes a byte to a pipe, and a thread of its own reads it. Where it cannot be
/// installed, `SIGINT` keeps ending the process on the spot.
pub(crate) fn cancels(token: CancelToken) {
    let again = AtomicBool::new(false);
    let handler = move || {
        if again.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(exit::CANCELLED));
        }
        token.cancel();
    };
    let _ = ctrlc::set_handler(handler);
}

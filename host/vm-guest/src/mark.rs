//! The mark of a machine that was turned off in order.

use std::fs;

const MARK: &str = "/var/lib/codebox/off";

/// Removes the mark of the last end; false if there is none, as after a power failure.
pub(crate) fn begin() -> bool {
    fs::remove_file(MARK).is_ok()
}

/// Makes the mark, after all other processes have ended.
pub(crate) fn end() {
    let _ = fs::create_dir_all("/var/lib/codebox").and_then(|()| fs::write(MARK, ""));
}

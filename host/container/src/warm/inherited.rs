//! What a process that goes on alone is not to have of the one that starts it.

#![expect(unsafe_code, reason = "descriptors that others opened are known by their numbers alone")]

use std::os::fd::BorrowedFd;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Lets no process that is started from now on have a descriptor of this one's but the three standard ones: locks, pipes and
/// terminals of whoever started this one would stay open for as long as it lives.
pub(crate) fn keep_here() {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: the number is not negative, and the borrow ends with these two calls, which read and set a flag and close
        // nothing. If it has been closed since it was listed, they answer with an error; if it was given out anew, the flag
        // is what Rust sets on everything that it opens.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(descriptor) {
            let _ = fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC);
        }
    }
}

//! File descriptors that a detached process must not inherit.

#![expect(unsafe_code, reason = "descriptors that others opened are known by their numbers alone")]

use std::os::fd::BorrowedFd;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// Sets close-on-exec on every descriptor except the three standard ones. Otherwise a process that is started later
/// would keep the locks, pipes and terminals of this process's parent open for its whole lifetime.
pub(crate) fn set_cloexec_on_all() {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // SAFETY: the number is not negative, and the borrow ends with these two calls, which read and set a flag and
        // close nothing. If the descriptor has been closed since it was listed, the calls return an error. If its
        // number has been reused, the flag is the one that Rust sets on every descriptor that it opens.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(descriptor) {
            let _ = fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC);
        }
    }
}

//! Times, and ways to open, on Windows.

use std::fs::{DirBuilder, OpenOptions};
use std::time::{Duration, SystemTime};

/// The time that the file system gives to a change made now, less the widest step that such a clock moves in.
#[must_use]
pub fn file_time() -> SystemTime {
    SystemTime::now() - Duration::from_millis(20)
}

/// The flag of an open that takes a link for itself.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Lets an open follow no link at the path's end.
pub fn open_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::windows::fs::OpenOptionsExt::custom_flags(options, OPEN_REPARSE_POINT)
}

/// Nothing in a directory makes an open wait here.
pub(crate) fn open_without_waiting(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    options
}

/// When a file was last written, which a program can set; the system tells nothing better here.
pub(crate) fn changed_at(meta: &cap_std::fs::Metadata) -> SystemTime {
    meta.modified().map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std)
}

/// Directories inherit who may enter them from the user's profile.
pub(crate) fn build_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

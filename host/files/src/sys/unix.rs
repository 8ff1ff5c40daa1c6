//! Times, and ways to open, on Unix.

use std::fs::{DirBuilder, OpenOptions};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

/// The time that the file system gives to a change made now: never later than a change made afterwards.
#[cfg(target_os = "linux")]
#[must_use]
pub fn file_time() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The time that the file system gives to a change made now, less the widest step that such a clock moves in.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn file_time() -> SystemTime {
    SystemTime::now() - Duration::from_millis(10)
}

/// Lets an open follow no link at the path's end and wait for nobody: not for a FIFO's other end either.
pub fn open_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
}

/// Lets an open below a directory handle wait for nobody.
pub(crate) fn open_without_waiting(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    cap_std::fs::OpenOptionsExt::custom_flags(options, flags(OFlags::NONBLOCK))
}

/// When the system last saw a file change, which no program can set.
pub(crate) fn changed_at(meta: &cap_std::fs::Metadata) -> SystemTime {
    use cap_std::fs::MetadataExt;
    let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(meta.ctime_nsec()).unwrap_or(0))
}

/// Makes what is built with this only this user's to enter.
pub(crate) fn build_private(builder: &mut DirBuilder) -> &mut DirBuilder {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

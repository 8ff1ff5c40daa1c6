//! Working directories of programs.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a working directory. The file systems of the kernel are refused: their files lead to descriptors of this process.
pub(crate) fn open(path: &OsStr) -> io::Result<OwnedFd> {
    let refused = ["/proc", "/sys", "/dev"];
    let path = Path::new(path);
    if !path.is_absolute() || refused.iter().any(|dir| path.starts_with(dir)) {
        return Err(io::Error::other("it must be an absolute path outside of /proc, /sys and /dev"));
    }
    let dir = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    // A link may lead there.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
    if refused.iter().any(|dir| real.starts_with(dir)) {
        return Err(io::Error::other("it leads to /proc, /sys or /dev"));
    }
    Ok(dir)
}

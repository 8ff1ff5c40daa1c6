//! Times, open flags and metadata of files on Unix.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, FileType, FileTypeExt, Metadata, MetadataExt};
use rustix::fs::{Mode, OFlags};

/// Relevant mode bits.
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const OWNER_MAY_RUN: u32 = 0o100;

/// Returns the timestamp of a change made now. It is never later than the timestamp of a change made afterwards.
#[cfg(target_os = "linux")]
#[must_use]
pub fn file_time() -> SystemTime {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the timestamp of a change made now, less the coarsest step of file system clocks.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn file_time() -> SystemTime {
    SystemTime::now() - Duration::from_millis(10)
}

/// Makes an open follow no link at the end of the path and never block, for example on a FIFO.
pub fn set_nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags(OFlags::NOFOLLOW | OFlags::NONBLOCK))
}

/// Makes an open accept only a directory, and no link to one.
pub(crate) fn set_directory_nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    // On Linux, `O_PATH` opens the directory without read permission.
    #[cfg(target_os = "linux")]
    let open_flags = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let open_flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags(open_flags))
}

/// Lets all users execute a file, and none write to it.
pub(crate) fn set_program_mode(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o555))
}

/// Returns true if all users may execute a file.
pub(crate) fn is_executable_by_all(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(meta) & 0o555 == 0o555
}

/// Returns the identity of a file and of its content, composed of metadata that the kernel updates with either.
pub(crate) fn identity(meta: &std::fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let times = format!("{} {} {} {}", meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    Some(format!("{} {} {} {times}", meta.dev(), meta.ino(), meta.len()))
}

/// Makes an open relative to a directory handle never block.
pub(crate) fn set_nonblock(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    // An opened terminal must not become the controlling terminal of this process.
    cap_std::fs::OpenOptionsExt::custom_flags(options, flags(OFlags::NONBLOCK | OFlags::NOCTTY))
}

/// Returns the change time of a file, which no program can set.
pub(crate) fn change_time(meta: &Metadata) -> SystemTime {
    let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(meta.ctime_nsec()).unwrap_or(0))
}

/// Makes created directories accessible to this user alone.
pub(crate) fn set_private_mode(builder: &mut DirBuilder) -> &mut DirBuilder {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700)
}

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Makes a created file executable, subject to the user's umask.
pub(crate) fn set_executable(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    cap_std::fs::OpenOptionsExt::mode(options, 0o777)
}

/// Returns true if the owner may execute the file.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.mode() & OWNER_MAY_RUN != 0
}

/// Returns the set bits that run a file with the privileges of its owner or group.
pub(crate) fn set_id_bits(meta: &Metadata) -> Option<&'static str> {
    match meta.mode() & (SETUID | SETGID) {
        0 => None,
        SETUID => Some("setuid bit"),
        SETGID => Some("setgid bit"),
        _ => Some("setuid and setgid bits"),
    }
}

/// Returns the kind of a file that is not a regular file, directory or symbolic link.
pub(crate) fn special_kind(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "a special file",
    }
}

/// Returns the allocated bytes of a file or directory.
pub(crate) fn allocated_bytes(meta: &Metadata) -> u64 {
    meta.blocks().saturating_mul(512)
}

/// Returns the current parent of a directory.
pub(crate) fn parent_dir(dir: &Dir) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let parent_dir = rustix::fs::openat(dir, "..", flags, Mode::empty())?;
    Ok(Dir::from_std_file(std::fs::File::from(parent_dir)))
}

/// Grants its owner access to a directory that lacks it.
pub(crate) fn grant_owner_access(dir: &Dir) -> io::Result<()> {
    if Mode::from_raw_mode(rustix::fs::fstat(dir)?.st_mode).contains(Mode::RWXU) {
        return Ok(());
    }
    set_mode(dir, Mode::RWXU)
}

/// Changes a directory's mode.
///
/// On Linux, a handle on an unreadable directory is an `O_PATH` descriptor, whose mode can be changed only through
/// `/proc/self/fd`.
fn set_mode(dir: &Dir, mode: Mode) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let handles = rustix_linux_procfs::proc_self_fd()?;
        rustix::fs::chmodat(handles, dir.as_raw_fd().to_string(), mode, rustix::fs::AtFlags::empty())?;
    }
    #[cfg(not(target_os = "linux"))]
    rustix::fs::fchmod(dir, mode)?;
    Ok(())
}

/// A directory without access for its owner, which is accessible as long as the value lives.
#[derive(Debug)]
pub(crate) struct OwnerAccessGuard {
    dir: Dir,
    original_mode: Mode,
}

impl OwnerAccessGuard {
    /// Makes an inaccessible directory accessible. Returns `None` if it already is, or if the change fails.
    pub(crate) fn take(dir: &Dir) -> Option<Self> {
        let needed = Mode::RUSR | Mode::XUSR;
        let original_mode = Mode::from_raw_mode(rustix::fs::fstat(dir).ok()?.st_mode);
        // Listing a directory and looking up its entries take both permissions, or a privileged user.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if original_mode.contains(needed) || rustix::fs::openat(dir, ".", flags, Mode::empty()).is_ok() {
            return None;
        }
        let dir = dir.try_clone().ok()?;
        set_mode(&dir, original_mode | needed).ok()?;
        Some(Self { dir, original_mode })
    }
}

impl Drop for OwnerAccessGuard {
    fn drop(&mut self) {
        let needed = Mode::RUSR | Mode::XUSR;
        // The mode is restored only if the directory's owner did not change it in the meantime.
        let is_ours = rustix::fs::fstat(&self.dir)
            .is_ok_and(|now| Mode::from_raw_mode(now.st_mode) == self.original_mode | needed);
        if is_ours {
            let _ = set_mode(&self.dir, self.original_mode);
        }
    }
}

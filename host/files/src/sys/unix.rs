//! Times, ways to open, and what the system says of a file, on Unix.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, FileType, FileTypeExt, Metadata, MetadataExt};
use rustix::fs::{Mode, OFlags};

/// The permission bits that matter here.
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const OWNER_MAY_RUN: u32 = 0o100;

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

/// Lets an open take a directory only, and no link to one.
pub(crate) fn open_directory_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    // Linux opens it for its identity alone, which takes no right to read it.
    #[cfg(target_os = "linux")]
    let how = OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    let how = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags(how))
}

/// Lets every user run a file, and nobody change it.
pub(crate) fn make_program(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o555))
}

/// Returns true if every user may run a file.
pub(crate) fn may_run(meta: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::mode(meta) & 0o555 == 0o555
}

/// The identity of a file and of its content: what the system changes with either.
pub(crate) fn identity(meta: &std::fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let times = format!("{} {} {} {}", meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    Some(format!("{} {} {} {times}", meta.dev(), meta.ino(), meta.len()))
}

/// Lets an open below a directory handle wait for nobody.
pub(crate) fn open_without_waiting(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    // A terminal that is opened does not become this process's own.
    cap_std::fs::OpenOptionsExt::custom_flags(options, flags(OFlags::NONBLOCK | OFlags::NOCTTY))
}

/// When the system last saw a file change, which no program can set.
pub(crate) fn changed_at(meta: &Metadata) -> SystemTime {
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

/// Lets a file that is made with this be run by whom the user's mask allows.
pub(crate) fn make_runnable(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    cap_std::fs::OpenOptionsExt::mode(options, 0o777)
}

/// Whether a file's owner may run it.
pub(crate) fn is_runnable(meta: &Metadata) -> bool {
    meta.mode() & OWNER_MAY_RUN != 0
}

/// The bits that would lend its owner's or group's powers to whoever runs a file.
pub(crate) fn lent_powers(meta: &Metadata) -> Option<&'static str> {
    match meta.mode() & (SETUID | SETGID) {
        0 => None,
        SETUID => Some("setuid bit"),
        SETGID => Some("setgid bit"),
        _ => Some("setuid and setgid bits"),
    }
}

/// What a file is that is no regular file, directory or symbolic link.
pub(crate) fn special_kind(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "a special file",
    }
}

/// Bytes that a file or directory takes on the disk.
pub(crate) fn allocated(meta: &Metadata) -> u64 {
    meta.blocks().saturating_mul(512)
}

/// The directory that a directory is in now.
pub(crate) fn above(dir: &Dir) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let above = rustix::fs::openat(dir, "..", flags, Mode::empty())?;
    Ok(Dir::from_std_file(std::fs::File::from(above)))
}

/// Gives its owner access to a directory that lacks it.
pub(crate) fn take_access(dir: &Dir) -> io::Result<()> {
    if Mode::from_raw_mode(rustix::fs::fstat(dir)?.st_mode).contains(Mode::RWXU) {
        return Ok(());
    }
    set_mode(dir, Mode::RWXU)
}

/// Changes a directory's mode.
///
/// A handle on a directory that may not be read is one without access, and such a handle's mode is changed through the
/// system's list of handles.
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

/// A directory that was closed to its owner and is open as long as this lives.
#[derive(Debug)]
pub(crate) struct Unlocked {
    dir: Dir,
    was: Mode,
}

impl Unlocked {
    /// Opens a directory that this user may not look into; nothing where it may, or cannot be let.
    pub(crate) fn take(dir: &Dir) -> Option<Self> {
        let look = Mode::RUSR | Mode::XUSR;
        let was = Mode::from_raw_mode(rustix::fs::fstat(dir).ok()?.st_mode);
        // To find what is in it and to list it takes both rights, or a user who needs none.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if was.contains(look) || rustix::fs::openat(dir, ".", flags, Mode::empty()).is_ok() {
            return None;
        }
        let dir = dir.try_clone().ok()?;
        set_mode(&dir, was | look).ok()?;
        Some(Self { dir, was })
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        let look = Mode::RUSR | Mode::XUSR;
        // Whose directory it is may have changed its mind meanwhile.
        let is_ours = rustix::fs::fstat(&self.dir).is_ok_and(|now| Mode::from_raw_mode(now.st_mode) == self.was | look);
        if is_ours {
            let _ = set_mode(&self.dir, self.was);
        }
    }
}

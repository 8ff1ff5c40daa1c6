//! Times and open flags on Windows.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, FileType, Metadata};

/// Returns the timestamp of a change made now, less the coarsest step of file system clocks.
#[must_use]
pub fn file_time() -> SystemTime {
    SystemTime::now() - Duration::from_millis(20)
}

/// The flag that opens a link itself.
const OPEN_REPARSE_POINT: u32 = 0x0020_0000;

/// Makes an open follow no link at the end of the path.
pub fn set_nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::windows::fs::OpenOptionsExt::custom_flags(options, OPEN_REPARSE_POINT)
}

/// The flag that permits the opening of directories.
const BACKUP_SEMANTICS: u32 = 0x0200_0000;

/// Makes an open accept a directory, and no link to one.
pub(crate) fn set_directory_nofollow(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::windows::fs::OpenOptionsExt::custom_flags(options, OPEN_REPARSE_POINT | BACKUP_SEMANTICS)
}

/// Checks nothing, because directories inherit their permissions from the user's profile.
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_own(_meta: &std::fs::Metadata) -> Result<(), crate::trust::UntrustedReason> {
    Ok(())
}

/// Checks nothing, because directories inherit their permissions from the user's profile.
pub fn check_own_or_root(_meta: &std::fs::Metadata) -> Result<(), crate::trust::UntrustedReason> {
    Ok(())
}

/// Checks nothing, as for [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_parents(_path: &std::path::Path) -> io::Result<()> {
    Ok(())
}

/// Checks nothing, as for [`check_own`].
pub fn check_own_or_private(_meta: &std::fs::Metadata) -> Result<(), crate::trust::UntrustedReason> {
    Ok(())
}

/// Checks nothing, as for [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub fn check_resolved_path(_path: &std::path::Path) -> io::Result<()> {
    Ok(())
}

/// Changes nothing, because Windows executes files by their name.
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn set_program_mode(_file: &std::fs::File) -> io::Result<()> {
    Ok(())
}

/// Returns `None`, because no metadata changes with a file's identity and content.
pub(crate) fn identity(_meta: &std::fs::Metadata) -> Option<String> {
    None
}

/// Returns true, because Windows executes files by their name.
pub(crate) fn is_executable_by_all(_meta: &std::fs::Metadata) -> bool {
    true
}

/// Changes nothing, because no directory entry makes an open block.
pub(crate) fn set_nonblock(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    options
}

/// Returns the modification time, which a program can set. Windows offers no change time here.
pub(crate) fn change_time(meta: &cap_std::fs::Metadata) -> SystemTime {
    meta.modified().map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std)
}

/// Changes nothing, because directories inherit their permissions from the user's profile.
pub(crate) fn set_private_mode(builder: &mut DirBuilder) -> &mut DirBuilder {
    builder
}

/// Changes nothing, because Windows executes files by their name.
pub(crate) fn set_executable(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    options
}

/// Returns false, because Windows executes files by their name.
pub(crate) fn is_executable(_meta: &Metadata) -> bool {
    false
}

/// Returns `None`, because Windows has no setuid or setgid bits.
pub(crate) fn set_id_bits(_meta: &Metadata) -> Option<&'static str> {
    None
}

/// Returns the kind of a file that is not a regular file, directory or symbolic link.
pub(crate) fn special_kind(_kind: FileType) -> &'static str {
    "a special file"
}

/// Returns a file's length, because the allocated size would take another call.
pub(crate) fn allocated_bytes(meta: &Metadata) -> u64 {
    meta.len()
}

/// Fails, because directory handles cannot open their parent.
pub(crate) fn parent_dir(_dir: &Dir) -> io::Result<Dir> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A mounted file system. All are equal, because a path leads to another file system only through a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mount;

impl Mount {
    /// Returns the mount of an open directory.
    pub(crate) fn of(_dir: &Dir) -> io::Result<Self> {
        Ok(Self)
    }
}

/// Changes nothing, because access is inherited and a job cannot revoke it.
pub(crate) fn grant_owner_access(_dir: &Dir) -> io::Result<()> {
    Ok(())
}

/// A directory without access for its owner, which does not occur on Windows.
#[derive(Debug)]
pub(crate) struct OwnerAccessGuard;

impl OwnerAccessGuard {
    /// Returns `None`.
    pub(crate) fn take(_dir: &Dir) -> Option<Self> {
        None
    }
}

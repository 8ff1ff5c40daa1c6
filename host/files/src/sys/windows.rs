//! Times, and ways to open, on Windows.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, FileType, Metadata};

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

/// The flag of an open that takes directories.
const BACKUP_SEMANTICS: u32 = 0x0200_0000;

/// Lets an open take a directory, and no link to one.
pub(crate) fn open_directory_itself(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::windows::fs::OpenOptionsExt::custom_flags(options, OPEN_REPARSE_POINT | BACKUP_SEMANTICS)
}

/// Checks nothing: directories inherit who may change them from the user's profile.
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_own(_meta: &std::fs::Metadata) -> Result<(), crate::trust::Untrusted> {
    Ok(())
}

/// Checks nothing, as [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_own_or_root(_meta: &std::fs::Metadata) -> Result<(), crate::trust::Untrusted> {
    Ok(())
}

/// Checks nothing, as [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_parents(_path: &std::path::Path) -> io::Result<()> {
    Ok(())
}

/// Checks nothing, as [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_own_or_private(_meta: &std::fs::Metadata) -> Result<(), crate::trust::Untrusted> {
    Ok(())
}

/// Checks nothing, as [`check_own`].
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn check_way(_path: &std::path::Path) -> io::Result<()> {
    Ok(())
}

/// Changes nothing: files are run here by what they are called.
#[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
pub(crate) fn make_program(_file: &std::fs::File) -> io::Result<()> {
    Ok(())
}

/// The identity of a file and of its content: nothing here that changes with either.
pub(crate) fn identity(_meta: &std::fs::Metadata) -> Option<String> {
    None
}

/// Returns true: files are run here by what they are called.
pub(crate) fn may_run(_meta: &std::fs::Metadata) -> bool {
    true
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

/// Files are run here by what they are called.
pub(crate) fn make_runnable(options: &mut cap_std::fs::OpenOptions) -> &mut cap_std::fs::OpenOptions {
    options
}

/// Files are run here by what they are called.
pub(crate) fn is_runnable(_meta: &Metadata) -> bool {
    false
}

/// Nothing here lends its owner's powers.
pub(crate) fn lent_powers(_meta: &Metadata) -> Option<&'static str> {
    None
}

/// What a file is that is no regular file, directory or symbolic link.
pub(crate) fn special_kind(_kind: FileType) -> &'static str {
    "a special file"
}

/// A file's length: what it takes on the disk is not told without another call.
pub(crate) fn allocated(meta: &Metadata) -> u64 {
    meta.len()
}

/// No handle leads upwards here.
pub(crate) fn above(_dir: &Dir) -> io::Result<Dir> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A mounted file system; not told apart, as what leads to another one here is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mount;

impl Mount {
    /// The mount that an open directory is on.
    pub(crate) fn of(_dir: &Dir) -> io::Result<Self> {
        Ok(Self)
    }
}

/// Access here is inherited, and a job cannot take it away.
pub(crate) fn take_access(_dir: &Dir) -> io::Result<()> {
    Ok(())
}

/// Nothing is closed to its owner here that could be opened.
#[derive(Debug)]
pub(crate) struct Unlocked;

impl Unlocked {
    /// Nothing.
    pub(crate) fn take(_dir: &Dir) -> Option<Self> {
        None
    }
}

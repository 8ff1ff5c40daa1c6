//! Opens what stands in a directory itself, and no link to something else.

use std::ffi::OsStr;
use std::io;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::fs::{Dir, File, OpenOptions};
use codebox_core::GuestPath;
use codebox_core::path::MappedPath;

use crate::sys::open_without_waiting;

/// Opens a directory that is one, and no link to one.
pub(crate) fn open_dir(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    dir.open_dir_nofollow(name)
}

/// Opens a regular file that is one, and no link to one; never waits for a FIFO's other end.
pub(crate) fn open_file(dir: &Dir, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    open_without_waiting(options.read(true).follow(FollowSymlinks::No));
    let file = dir.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// The components of a guest's path that come after those of `at`.
pub(crate) fn parts_below<'a>(path: &'a GuestPath, at: &GuestPath) -> Vec<&'a str> {
    path.components().skip(at.components().count()).collect()
}

/// Opens the regular file that `parts` lead to, through no link.
pub(crate) fn open_below(dir: &Dir, parts: &[&str]) -> io::Result<File> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut dir = dir.try_clone()?;
    for parent in parents {
        dir = open_dir(&dir, parent.as_ref())?;
    }
    open_file(&dir, name.as_ref())
}

/// Opens the directory that `parents` lead to, and makes what is missing of them.
pub(crate) fn make_dirs(dir: &Dir, parents: &[&str]) -> io::Result<Dir> {
    let mut dir = dir.try_clone()?;
    for parent in parents {
        match dir.create_dir(parent) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        dir = open_dir(&dir, parent.as_ref())?;
    }
    Ok(dir)
}

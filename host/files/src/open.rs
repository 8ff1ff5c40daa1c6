//! Opens what stands in a directory itself, and no link to something else.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};
use codebox_core::GuestPath;
use codebox_core::path::MappedPath;

use crate::sys::open_without_waiting;

/// Opens a directory of the host by a whole path that was free of links when it was admitted, and has to be so still.
///
/// A job may have been given a directory above it, and can have put a link in its place.
///
/// # Errors
/// When a part of it is a link, or no directory, or the path is not a whole one.
pub fn open_linkless(path: &Path) -> io::Result<Dir> {
    let root: &Path = path.ancestors().last().filter(|root| root.has_root()).ok_or(io::ErrorKind::InvalidInput)?;
    let mut dir = Dir::open_ambient_dir(root, ambient_authority())?;
    for component in path.components() {
        match component {
            Component::Prefix(_) | Component::RootDir => {}
            Component::Normal(name) => dir = open_dir(&dir, name)?,
            Component::CurDir | Component::ParentDir => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    Ok(dir)
}

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

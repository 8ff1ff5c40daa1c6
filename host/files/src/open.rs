//! Opening of files and directories without following links.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions};
use codebox_core::path::MappedPath;
use codebox_core::{FileKind, GuestPath};

use crate::sys::set_nonblock;

/// Opens a host directory by an absolute path without links. The path was free of links at admission and must still be.
///
/// A job may have been granted a parent directory and may have put a link there.
///
/// # Errors
/// An error if a component is a link or not a directory, or if the path is not absolute.
pub fn open_dir_without_symlinks(path: &Path) -> io::Result<Dir> {
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

/// Kinds of files by their absolute paths, without following a link. Keeps the directory of the last file open, because lists of
/// files are sorted.
#[derive(Debug, Default)]
pub struct FileKinds(Option<(PathBuf, Dir)>);

impl FileKinds {
    /// Returns the kind of a file.
    ///
    /// # Errors
    /// An error if a component above the file is a link or not a directory, or if there is no file.
    pub fn kind(&mut self, path: &Path) -> io::Result<FileKind> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = match self.0.take() {
            Some((last, dir)) if last == parent => dir,
            _ => open_dir_without_symlinks(parent)?,
        };
        let kind = dir.symlink_metadata(name).map(|metadata| metadata.file_type());
        self.0 = Some((parent.to_owned(), dir));
        let kind = kind?;
        Ok(match (kind.is_file(), kind.is_dir(), kind.is_symlink()) {
            (true, _, _) => FileKind::Regular,
            (_, true, _) => FileKind::Directory,
            (_, _, true) => FileKind::Symlink,
            _ => FileKind::Special,
        })
    }
}

/// Opens a directory without following a link.
pub(crate) fn open_dir(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    dir.open_dir_nofollow(name)
}

/// Opens a directory by its path, whose last component must not be a link. The directory above it is trusted.
///
/// # Errors
/// An error if the last component is a link or not a directory, or if the directory cannot be opened.
pub fn open_last_dir(path: &Path) -> io::Result<Dir> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    open_dir(&Dir::open_ambient_dir(parent, ambient_authority())?, name)
}

/// Opens a subdirectory, which must not be a link.
///
/// # Errors
/// An error if the name is a link or not a directory, or if the directory cannot be opened.
pub fn open_inner_dir(dir: &Dir, name: &str) -> io::Result<Dir> {
    open_dir(dir, name.as_ref())
}

/// Opens a regular file for reading without following a link. Never blocks on a FIFO.
///
/// # Errors
/// An error if the name is a link or not a regular file, or if the file cannot be opened.
pub fn open_for_reading(dir: &Dir, name: &str) -> io::Result<std::fs::File> {
    Ok(open_file(dir, name.as_ref())?.into_std())
}

/// Creates a file for writing. The name must not exist.
///
/// # Errors
/// The system's error.
pub fn create_new_file(dir: &Dir, name: &str) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    Ok(dir.open_with(name, &options)?.into_std())
}

/// Opens a regular file without following a link. Never blocks on a FIFO.
pub(crate) fn open_file(dir: &Dir, name: &OsStr) -> io::Result<File> {
    let mut options = OpenOptions::new();
    set_nonblock(options.read(true).follow(FollowSymlinks::No));
    let file = dir.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Opens a regular file of a directory for reading and appending without following a link, and creates it if it is
/// missing. Never blocks on a FIFO.
///
/// # Errors
/// An error if the name is a link or not a regular file, or if the file cannot be opened.
pub fn open_for_appending(dir: &Dir, name: &OsStr) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    set_nonblock(options.read(true).append(true).create(true).follow(FollowSymlinks::No));
    let file = dir.open_with(name, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file.into_std())
}

/// Returns the components of a guest path below `at`.
pub(crate) fn components_below<'a>(path: &'a GuestPath, at: &GuestPath) -> Vec<&'a str> {
    path.components().skip(at.components().count()).collect()
}

/// Opens the regular file at the path of `parts` without following links.
pub(crate) fn open_file_below(dir: &Dir, parts: &[&str]) -> io::Result<File> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut dir = dir.try_clone()?;
    for parent in parents {
        dir = open_dir(&dir, parent.as_ref())?;
    }
    open_file(&dir, name.as_ref())
}

/// Opens the directory at the path of `parents`, and creates missing directories.
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

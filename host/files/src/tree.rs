//! Copies of directory trees that a job made.

use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, SystemTimeSpec};
use cap_std::fs::{Dir, OpenOptions};

use crate::open::{open_dir, open_file};
use crate::sys::set_nonblock;

/// Maximum depth of a copied tree. Each level holds two descriptors.
pub(crate) const MAX_DEPTH: usize = 128;

/// Maximum number of entries of a copied tree.
pub(crate) const MAX_ENTRIES: usize = 200_000;

/// Copies the contents of a directory into an empty one, without following links: files and directories with their
/// times of modification, and symbolic links with their text. Returns the number of bytes in files and the number of entries.
///
/// # Errors
/// The system's errors, unchanged, and an error with the path of an entry for a socket, a pipe or a device, and for a tree that is larger
/// than `max_bytes`, deeper than 128 levels or has more than 200,000 entries.
pub fn copy_tree(from: &Dir, to: &Dir, max_bytes: u64) -> io::Result<(u64, u64)> {
    let mut copy = TreeCopy { left: max_bytes, entries: 0 };
    copy.dir(from, to, Path::new(""), 0)?;
    Ok((max_bytes - copy.left, copy.entries as u64))
}

/// Writes the files and directories of a tree through to the disk. Follows no links.
///
/// # Errors
/// The system's error, or one for a tree that is too deep.
pub fn sync_tree(dir: &Dir) -> io::Result<()> {
    sync_dir(dir, 0)
}

fn sync_dir(dir: &Dir, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("the tree is too deep"));
    }
    for entry in dir.entries()? {
        let name = entry?.file_name();
        let kind = dir.symlink_metadata(&name)?;
        if kind.is_dir() {
            sync_dir(&open_dir(dir, &name)?, depth + 1)?;
        } else if kind.is_file() {
            open_file(dir, &name)?.sync_all()?;
        }
    }
    dir.open(".")?.sync_all()
}

struct TreeCopy {
    left: u64,
    entries: usize,
}

impl TreeCopy {
    fn dir(&mut self, from: &Dir, to: &Dir, at: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(named(at, io::Error::other("the tree is too deep")));
        }
        for entry in from.entries()? {
            let name = entry?.file_name();
            let at = at.join(&name);
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(named(&at, io::Error::other("the tree has too many entries")));
            }
            let failed = |error| named(&at, error);
            let kind = from.symlink_metadata(&name).map_err(failed)?;
            if kind.is_dir() {
                to.create_dir(&name).map_err(failed)?;
                let (inner, copied) = (open_dir(from, &name).map_err(failed)?, open_dir(to, &name).map_err(failed)?);
                self.dir(&inner, &copied, &at, depth + 1)?;
                let time = kind.modified().map_err(failed)?;
                to.set_symlink_times(&name, None, Some(SystemTimeSpec::Absolute(time))).map_err(failed)?;
            } else if kind.is_symlink() {
                copy_link(from, to, name.as_ref()).map_err(failed)?;
            } else if kind.is_file() {
                self.file(from, to, name.as_ref()).map_err(failed)?;
            } else {
                return Err(failed(io::Error::other("it is a socket, a pipe or a device")));
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Dir, to: &Dir, name: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // Another process may replace the file with a link or a pipe meanwhile.
        set_nonblock(options.read(true).follow(FollowSymlinks::No));
        let source = from.open_with(name, &options)?.into_std();
        let metadata = source.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no longer a file"));
        }
        let mut options = OpenOptions::new();
        let copied = to.open_with(name, options.write(true).create_new(true).follow(FollowSymlinks::No))?.into_std();
        // One byte more shows that the file is larger than what is left.
        let count = io::copy(&mut io::Read::take(&source, self.left.saturating_add(1)), &mut &copied)?;
        self.left = self.left.checked_sub(count).ok_or_else(|| io::Error::other("the files are too large"))?;
        copied.set_modified(metadata.modified()?)
    }
}

#[cfg(unix)]
fn copy_link(from: &Dir, to: &Dir, name: &Path) -> io::Result<()> {
    to.symlink_contents(from.read_link_contents(name)?, name)
}

#[cfg(not(unix))]
fn copy_link(_: &Dir, _: &Dir, _: &Path) -> io::Result<()> {
    Err(io::Error::other("it is a symbolic link, which cannot be copied on this system"))
}

/// Adds the path of an entry to an error that is not the system's.
pub(crate) fn named(at: &Path, error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    let at: PathBuf = at.to_owned();
    io::Error::new(error.kind(), format!("{}: {error}", at.display()))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use anyhow::Result;
    use cap_std::ambient_authority;

    use super::*;

    fn dirs() -> Result<(tempfile::TempDir, Dir, Dir)> {
        let home = tempfile::tempdir()?;
        let make = |name: &str| {
            fs::create_dir(home.path().join(name))?;
            Dir::open_ambient_dir(home.path().join(name), ambient_authority())
        };
        let (from, to) = (make("from")?, make("to")?);
        Ok((home, from, to))
    }

    #[test]
    fn trees_are_copied_with_links_and_times() -> Result<()> {
        let (home, from, to) = dirs()?;
        let path = |name: &str| home.path().join("from").join(name);
        fs::create_dir_all(path("a/b"))?;
        fs::write(path("a/b/file"), "text")?;
        let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        fs::File::options().write(true).open(path("a/b/file"))?.set_modified(then)?;
        fs::File::open(path("a"))?.set_modified(then)?;
        symlink("/etc/passwd", path("outside"))?;
        symlink("a/b/file", path("inside"))?;
        assert_eq!(copy_tree(&from, &to, 4)?, (4, 5));
        let path = |name: &str| home.path().join("to").join(name);
        assert_eq!(fs::read_to_string(path("a/b/file"))?, "text");
        assert_eq!([fs::metadata(path("a/b/file"))?.modified()?, fs::metadata(path("a"))?.modified()?], [then, then]);
        assert_eq!(fs::read_link(path("outside"))?, Path::new("/etc/passwd"));
        assert_eq!(fs::read_link(path("inside"))?, Path::new("a/b/file"));
        Ok(())
    }

    #[test]
    fn trees_beyond_their_limits_are_refused_with_the_path() -> Result<()> {
        let (home, from, to) = dirs()?;
        fs::write(home.path().join("from/large"), "12345")?;
        let error = copy_tree(&from, &to, 4).expect_err("it is too large");
        assert_eq!(error.to_string(), "large: the files are too large");
        let (home, from, to) = dirs()?;
        std::os::unix::net::UnixListener::bind(home.path().join("from/socket"))?;
        let error = copy_tree(&from, &to, 4).expect_err("it is a socket");
        assert_eq!(error.to_string(), "socket: it is a socket, a pipe or a device");
        let (home, from, to) = dirs()?;
        let deep: PathBuf = home.path().join("from").join("d/".repeat(MAX_DEPTH + 2));
        fs::create_dir_all(&deep)?;
        assert!(copy_tree(&from, &to, 4).expect_err("it is too deep").to_string().ends_with("the tree is too deep"));
        Ok(())
    }
}

//! Removal of directory trees that a job left.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};

use cap_std::fs::Dir;

use crate::open::open_dir;
use crate::sys::{MOUNTED, Mount, take_access};

#[cfg(all(test, unix))]
mod tests;

/// The largest number of passes over the directory. Each level of a tree takes one pass.
const MAX_PASSES: usize = 1 << 20;

/// Removes a directory tree of any depth. Every subdirectory is moved to the top before it is emptied, so that stack,
/// descriptors and memory do not grow with the depth and width that a guest chose.
///
/// Other processes may change the tree at the same time: entries are removed only relative to an open directory handle,
/// which was opened without following links. A directory on which another file system is mounted stays, with its
/// parents. All other entries are removed, and the first error is returned.
pub(crate) fn remove_tree(parent: &Dir, name: &OsStr) -> io::Result<()> {
    let mount = Mount::of(parent)?;
    let top = enter(parent, name, mount)?;
    let mut removal = Removal { top: &top, mount, moved: 0, gone: 0, first: None };
    for _ in 0..MAX_PASSES {
        let before = removal.gone;
        removal.pass()?;
        match parent.remove_dir(name) {
            Err(e) if removal.gone == before => return Err(removal.first.unwrap_or(e)),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
    Err(io::Error::other("it keeps growing while it is removed"))
}

struct Removal<'a> {
    top: &'a Dir,
    mount: Mount,
    /// The number of directories moved to the top, which numbers their new names.
    moved: u64,
    /// The number of steps that made progress.
    gone: u64,
    first: Option<io::Error>,
}

impl Removal<'_> {
    /// Removes one level of the tree.
    fn pass(&mut self) -> io::Result<()> {
        // A later pass may succeed in removing entries on which an earlier one failed.
        self.first = None;
        let top = self.top;
        for entry in top.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.step(top.remove_file(&name));
                continue;
            }
            match enter(top, &name, self.mount) {
                Ok(dir) => {
                    self.empty(&dir);
                    self.step(top.remove_dir(&name));
                }
                Err(e) => self.failed(e),
            }
        }
        Ok(())
    }

    /// Removes the files of a directory, and moves its subdirectories to the top.
    fn empty(&mut self, dir: &Dir) {
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => return self.failed(e),
        };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            let done = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.move_up(dir, &name)
            } else {
                dir.remove_file(&name)
            };
            self.step(done);
        }
    }

    /// Moves a directory to the top, under a name that at most an empty directory has.
    fn move_up(&mut self, dir: &Dir, name: &OsStr) -> io::Result<()> {
        let mut opened = false;
        loop {
            self.moved += 1;
            match dir.rename(name, self.top, format!(".gone-{}", self.moved)) {
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory
                    ) && dir.symlink_metadata(name).is_ok_and(|meta| meta.is_dir()) => {}
                // A directory without write permission cannot be moved, because the move changes its `..` entry.
                Err(e) if e.kind() == ErrorKind::PermissionDenied && !opened => {
                    opened = true;
                    enter(dir, name, self.mount)?;
                }
                done => return done,
            }
        }
    }

    fn step(&mut self, done: io::Result<()>) {
        match done {
            Ok(()) => self.gone += 1,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => self.failed(e),
        }
    }

    fn failed(&mut self, error: io::Error) {
        self.first.get_or_insert(error);
    }
}

/// Opens a directory in order to empty it, and grants its owner access if necessary.
fn enter(parent: &Dir, name: &OsStr, mount: Mount) -> io::Result<Dir> {
    let dir = open_dir(parent, name)?;
    if Mount::of(&dir)? != mount {
        return Err(io::Error::other(MOUNTED));
    }
    // If the access is necessary and cannot be granted, the later operations fail.
    let _ = take_access(&dir);
    Ok(dir)
}

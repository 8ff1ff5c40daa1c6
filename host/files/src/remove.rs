//! Removes what a job left.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};

use cap_std::fs::Dir;

use crate::open::open_dir;
use crate::sys::{MOUNTED, Mount, take_access};

#[cfg(all(test, unix))]
mod tests;

/// Most times that the directory is looked through; a level of a tree costs one.
const MAX_PASSES: usize = 1 << 20;

/// Removes a directory with all that is in it, however deep: every directory below is moved up before it is emptied, so
/// that neither the stack nor descriptors nor memory grow with the depth and width that a guest chose.
///
/// Others may change the tree meanwhile: what is removed is removed from a directory that is held open, and was entered
/// through no link. A directory that another file system is mounted on is left, with those that lead to it. The rest
/// goes, and the answer is the first error met.
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
    Err(io::Error::other("it grows while it is removed"))
}

struct Removal<'a> {
    top: &'a Dir,
    mount: Mount,
    /// Directories moved up, which are named by it.
    moved: u64,
    /// Steps that brought the end nearer.
    gone: u64,
    first: Option<io::Error>,
}

impl Removal<'_> {
    /// Takes one level off everything below.
    fn pass(&mut self) -> io::Result<()> {
        // What could not be removed in an earlier pass may be gone by now.
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

    /// Removes a directory's files, and moves its directories up.
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

    /// Moves a directory to where nothing but an empty one is in its way.
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
                // A directory that may not be written to cannot be moved: its way up is in it.
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

/// Opens a directory to empty it, and gives its owner the access that takes.
fn enter(parent: &Dir, name: &OsStr, mount: Mount) -> io::Result<Dir> {
    let dir = open_dir(parent, name)?;
    if Mount::of(&dir)? != mount {
        return Err(io::Error::other(MOUNTED));
    }
    // Where it cannot be given, and is needed, what follows fails.
    let _ = take_access(&dir);
    Ok(dir)
}

//! Removal of directory trees that a job left.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};

use cap_std::fs::Dir;

use crate::open::open_dir;
use crate::sys::{MOUNT_POINT_REASON, Mount, grant_owner_access};

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
    let top = open_for_removal(parent, name, mount)?;
    let mut removal = Removal { top: &top, mount, moved: 0, progress: 0, first_error: None };
    for _ in 0..MAX_PASSES {
        let before = removal.progress;
        removal.pass()?;
        match parent.remove_dir(name) {
            Err(e) if removal.progress == before => return Err(removal.first_error.unwrap_or(e)),
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
    progress: u64,
    first_error: Option<io::Error>,
}

impl Removal<'_> {
    /// Removes one level of the tree.
    fn pass(&mut self) -> io::Result<()> {
        // A later pass may succeed in removing entries on which an earlier one failed.
        self.first_error = None;
        let top = self.top;
        for entry in top.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.record(top.remove_file(&name));
                continue;
            }
            match open_for_removal(top, &name, self.mount) {
                Ok(dir) => {
                    self.remove_contents(&dir);
                    self.record(top.remove_dir(&name));
                }
                Err(e) => self.record_error(e),
            }
        }
        Ok(())
    }

    /// Removes the files of a directory, and moves its subdirectories to the top.
    fn remove_contents(&mut self, dir: &Dir) {
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => return self.record_error(e),
        };
        for entry in entries {
            let Ok(entry) = entry else { return };
            let name = entry.file_name();
            let result = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.move_up(dir, &name)
            } else {
                dir.remove_file(&name)
            };
            self.record(result);
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
                    open_for_removal(dir, name, self.mount)?;
                }
                result => return result,
            }
        }
    }

    fn record(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => self.progress += 1,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => self.record_error(e),
        }
    }

    fn record_error(&mut self, error: io::Error) {
        self.first_error.get_or_insert(error);
    }
}

/// Opens a directory in order to empty it, and grants its owner access if necessary.
fn open_for_removal(parent: &Dir, name: &OsStr, mount: Mount) -> io::Result<Dir> {
    let dir = open_dir(parent, name)?;
    if Mount::of(&dir)? != mount {
        return Err(io::Error::other(MOUNT_POINT_REASON));
    }
    // If the access is necessary and cannot be granted, the later operations fail.
    let _ = grant_owner_access(&dir);
    Ok(dir)
}

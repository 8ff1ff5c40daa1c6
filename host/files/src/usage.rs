//! Disk usage of a directory that a job may change at the same time.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, Metadata};

use crate::open::open_dir;
use crate::sys::{Unlocked, above, allocated};

#[cfg(all(test, unix))]
mod tests;

/// The number of levels whose directories stay open. Deeper levels are left through `..`.
const MAX_HELD: usize = 64;
/// The largest number of directories that are found and not yet listed.
const MAX_WAITING: usize = 1 << 18;
/// The largest number of entries that are inspected, regardless of the ceiling.
const MAX_ENTRIES: u64 = 1 << 22;

/// Limits on the usage of a directory. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceiling {
    /// Allocated bytes.
    pub bytes: Option<u64>,
    /// Files, directories, links and all other entries.
    pub entries: Option<u64>,
}

/// The usage of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Allocated bytes of all entries below the directory. A file with several names counts once, and holes do not
    /// count.
    pub bytes: u64,
    /// The number of entries below the directory.
    pub entries: u64,
    /// The number of directories that could not be inspected: inaccessible and owned by another user, on another file
    /// system, moved during the walk, or beyond the limits of one walk.
    ///
    /// A measurement with such directories is not reliable, because a job can hide any amount of data in them.
    pub unseen: u64,
}

impl Used {
    /// Returns true if the usage exceeds the ceiling.
    #[must_use]
    pub fn is_over(&self, ceiling: Ceiling) -> bool {
        ceiling.bytes.is_some_and(|most| self.bytes > most) || ceiling.entries.is_some_and(|most| self.entries > most)
    }
}

/// Measures the usage below `dir`, up to the first entry that exceeds the ceiling.
///
/// A job may change the tree at the same time: entries that are gone are not counted, and a directory counts once even
/// if it is moved. A directory of this user that is inaccessible is made accessible while it is inspected. Links are
/// not followed and other file systems are not entered. The stack and the number of open handles do not grow with the
/// depth of the tree, and memory is bounded.
#[must_use]
pub fn measure(dir: &Dir, ceiling: Ceiling) -> Used {
    let mut used = Used::default();
    let top = dir.try_clone().and_then(|top| {
        let place = place(&top.dir_metadata()?);
        Ok((top, place))
    });
    match top {
        Ok((top, place)) => {
            let seen = HashSet::from([place]);
            Walk { ceiling, used: &mut used, device: place.0, seen, waiting: 0 }.all(top, place);
        }
        Err(_) => used.unseen += 1,
    }
    used
}

/// The identity of a file or directory: device and inode.
type Place = (u64, u64);

fn place(meta: &Metadata) -> Place {
    (meta.dev(), meta.ino())
}

/// A directory on the current path.
struct Level {
    place: Place,
    /// The handle, for the first [`MAX_HELD`] levels.
    held: Option<Dir>,
    /// The subdirectories that are not inspected yet.
    waiting: Vec<OsString>,
    /// Guard that keeps an inaccessible directory accessible.
    _unlocked: Option<Unlocked>,
}

/// The next step for a counted entry.
enum Next {
    LookInto,
    Nothing,
}

struct Walk<'a> {
    ceiling: Ceiling,
    used: &'a mut Used,
    device: u64,
    /// Counted directories, and counted files with several names.
    seen: HashSet<Place>,
    waiting: usize,
}

impl Walk<'_> {
    fn all(&mut self, top: Dir, at: Place) {
        let unlocked = Unlocked::take(&top);
        let Some(waiting) = self.list(&top) else { return };
        let mut here = top;
        let mut levels = vec![Level { place: at, held: here.try_clone().ok(), waiting, _unlocked: unlocked }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.waiting.pop() else {
                levels.pop();
                match self.climb(&mut levels, &here) {
                    Some(dir) => here = dir,
                    None => return,
                }
                continue;
            };
            self.waiting -= 1;
            let Some((inner, place)) = self.enter(&here, &name) else { continue };
            let is_held = levels.len() < MAX_HELD;
            let unlocked = if is_held { Unlocked::take(&inner) } else { None };
            let Some(waiting) = self.list(&inner) else { return };
            let held = if is_held { inner.try_clone().ok() } else { None };
            levels.push(Level { place, held, waiting, _unlocked: unlocked });
            here = inner;
        }
    }

    /// Returns the directory of the last level. Drops levels that are no longer above `here`.
    fn climb(&mut self, levels: &mut Vec<Level>, here: &Dir) -> Option<Dir> {
        let mut from = above(here).ok();
        while let Some(level) = levels.last() {
            if let Some(dir) = level.held.as_ref().and_then(|dir| dir.try_clone().ok()) {
                return Some(dir);
            }
            let found = from.take().and_then(|dir| Some((place(&dir.dir_metadata().ok()?), dir)));
            match found {
                Some((place, dir)) if place == level.place => return Some(dir),
                // The directory was moved, so its parent may be any directory.
                _ => {
                    self.used.unseen += level.waiting.len() as u64;
                    self.waiting -= level.waiting.len();
                    levels.pop();
                }
            }
        }
        None
    }

    /// Opens a directory on the same file system that was not inspected before.
    fn enter(&mut self, dir: &Dir, name: &OsString) -> Option<(Dir, Place)> {
        let opened = open_dir(dir, name).and_then(|inner| {
            let place = place(&inner.dir_metadata()?);
            Ok((inner, place))
        });
        match opened {
            Ok((_, place)) if place.0 != self.device => self.used.unseen += 1,
            Ok((inner, place)) => return self.seen.insert(place).then_some((inner, place)),
            Err(e) => self.lost(&e),
        }
        None
    }

    /// Counts the entries of a directory. Returns its subdirectories, or `None` to end the walk.
    fn list(&mut self, dir: &Dir) -> Option<Vec<OsString>> {
        let mut waiting = Vec::new();
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => {
                self.lost(&e);
                return Some(waiting);
            }
        };
        for entry in entries {
            let (entry, meta) = match entry.and_then(|entry| entry.metadata().map(|meta| (entry, meta))) {
                Ok(found) => found,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    self.lost(&e);
                    return Some(waiting);
                }
            };
            match self.count(&meta) {
                Next::Nothing => {}
                Next::LookInto if self.waiting < MAX_WAITING => {
                    self.waiting += 1;
                    waiting.push(entry.file_name());
                }
                Next::LookInto => self.used.unseen += 1,
            }
            if self.used.is_over(self.ceiling) {
                return None;
            }
            if self.used.entries >= MAX_ENTRIES {
                self.used.unseen += 1;
                return None;
            }
        }
        Some(waiting)
    }

    fn count(&mut self, meta: &Metadata) -> Next {
        self.used.entries += 1;
        if meta.is_dir() || meta.nlink() < 2 || self.seen.insert(place(meta)) {
            self.used.bytes = self.used.bytes.saturating_add(allocated(meta));
        }
        if meta.is_dir() { Next::LookInto } else { Next::Nothing }
    }

    /// Records a directory that cannot be inspected. A directory that is gone or was replaced does not count.
    fn lost(&mut self, error: &io::Error) {
        let swapped = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        self.used.unseen += u64::from(!swapped);
    }
}

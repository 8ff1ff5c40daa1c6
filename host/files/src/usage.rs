//! Adds up what a directory takes on the disk, while a job may change it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, Metadata};

use crate::open::open_dir;
use crate::sys::{Unlocked, above, allocated};

#[cfg(all(test, unix))]
mod tests;

/// Levels whose directories are held open; below, the way back leads through what the system says is above.
const MAX_HELD: usize = 64;
/// Most directories found and not yet looked into.
const MAX_WAITING: usize = 1 << 18;
/// Most entries looked at, whatever the ceiling.
const MAX_ENTRIES: u64 = 1 << 22;

/// What a directory may take; nothing is no ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ceiling {
    /// Bytes on the disk.
    pub bytes: Option<u64>,
    /// Files, directories, links and all else.
    pub entries: Option<u64>,
}

/// What a directory takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Bytes on the disk of all below it, each file once however many names it has; holes take none.
    pub bytes: u64,
    /// Entries below it.
    pub entries: u64,
    /// Directories that could not be looked into: closed to this user who does not own them, on another file system, moved
    /// away while they were looked through, or beyond what is looked at in one go.
    ///
    /// Whoever trusts a measurement must not trust one with some; a job can hide as much as it likes in them.
    pub unseen: u64,
}

impl Used {
    /// Whether it is more than allowed.
    #[must_use]
    pub fn is_over(&self, ceiling: Ceiling) -> bool {
        ceiling.bytes.is_some_and(|most| self.bytes > most) || ceiling.entries.is_some_and(|most| self.entries > most)
    }
}

/// Adds up what is below `dir`, up to the first entry that is over the ceiling.
///
/// A job may change the tree meanwhile: what has gone is not counted, and a directory is counted once wherever it is
/// moved to. A directory that is closed to this user, and is this user's, is open for as long as it is looked into. No link
/// is followed and no other file system entered. Neither the stack nor the number of open handles
/// grows with the depth of the tree, and memory is bounded.
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

/// What tells a file or directory from all others: device and number.
type Place = (u64, u64);

fn place(meta: &Metadata) -> Place {
    (meta.dev(), meta.ino())
}

/// A directory on the way down.
struct Level {
    place: Place,
    /// The handle, down to [`MAX_HELD`] levels.
    held: Option<Dir>,
    /// The directories in it that are still to be looked into.
    waiting: Vec<OsString>,
    /// What keeps it open, where it was closed.
    _unlocked: Option<Unlocked>,
}

/// What is to be done about an entry after it was counted.
enum Next {
    LookInto,
    Nothing,
}

struct Walk<'a> {
    ceiling: Ceiling,
    used: &'a mut Used,
    device: u64,
    /// Directories, and files with several names, that are counted already.
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

    /// The directory of the last level; levels that are no longer above `here` are given up.
    fn climb(&mut self, levels: &mut Vec<Level>, here: &Dir) -> Option<Dir> {
        let mut from = above(here).ok();
        while let Some(level) = levels.last() {
            if let Some(dir) = level.held.as_ref().and_then(|dir| dir.try_clone().ok()) {
                return Some(dir);
            }
            let found = from.take().and_then(|dir| Some((place(&dir.dir_metadata().ok()?), dir)));
            match found {
                Some((place, dir)) if place == level.place => return Some(dir),
                // It was moved: what is above it now may be anything.
                _ => {
                    self.used.unseen += level.waiting.len() as u64;
                    self.waiting -= level.waiting.len();
                    levels.pop();
                }
            }
        }
        None
    }

    /// Opens a directory that is on the same file system and was not looked into before.
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

    /// Counts a directory's entries; the directories among them, or nothing when it is enough.
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

    /// Something could not be looked into; what is gone, or is no directory any more, needs not to be.
    fn lost(&mut self, error: &io::Error) {
        let swapped = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        self.used.unseen += u64::from(!swapped);
    }
}

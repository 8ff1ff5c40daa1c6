//! Disk usage of a directory that a job may change at the same time.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, ErrorKind};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, Metadata};

use crate::open::open_dir;
use crate::sys::{OwnerAccessGuard, allocated_bytes, parent_dir};

#[cfg(all(test, unix))]
mod tests;

/// The number of levels whose directories stay open. Deeper levels are left through `..`.
const MAX_OPEN_LEVELS: usize = 64;
/// The largest number of directories that are found and not yet listed.
const MAX_PENDING_DIRS: usize = 1 << 18;
/// The largest number of entries that are inspected, regardless of the ceiling.
const MAX_ENTRIES: u64 = 1 << 22;

/// Limits on the usage of a directory. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageLimits {
    /// Allocated bytes.
    pub bytes: Option<u64>,
    /// Files, directories, links and all other entries.
    pub entries: Option<u64>,
}

/// The usage of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Allocated bytes of all entries below the directory. A file with several names counts once, and holes do not
    /// count.
    pub bytes: u64,
    /// The number of entries below the directory.
    pub entries: u64,
    /// The number of directories that could not be inspected: inaccessible and owned by another user, on another file
    /// system, moved during the walk, or beyond the limits of one walk.
    ///
    /// A measurement with such directories is not reliable, because a job can hide any amount of data in them.
    pub unreadable: u64,
}

impl DiskUsage {
    /// Returns true if the usage exceeds the ceiling.
    #[must_use]
    pub fn is_over(&self, ceiling: UsageLimits) -> bool {
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
pub fn measure(dir: &Dir, ceiling: UsageLimits) -> DiskUsage {
    let mut used = DiskUsage::default();
    let top = dir.try_clone().and_then(|top| {
        let inode_id = inode_id(&top.dir_metadata()?);
        Ok((top, inode_id))
    });
    match top {
        Ok((top, inode_id)) => {
            let visited = HashSet::from([inode_id]);
            Walk { ceiling, used: &mut used, device: inode_id.0, visited, pending: 0 }.all(top, inode_id);
        }
        Err(_) => used.unreadable += 1,
    }
    used
}

/// The identity of a file or directory: device and inode.
type InodeId = (u64, u64);

fn inode_id(meta: &Metadata) -> InodeId {
    (meta.dev(), meta.ino())
}

/// A directory on the current path.
struct Level {
    inode_id: InodeId,
    /// The handle, for the first [`MAX_OPEN_LEVELS`] levels.
    handle: Option<Dir>,
    /// The subdirectories that are not inspected yet.
    pending: Vec<OsString>,
    /// Guard that keeps an inaccessible directory accessible.
    _unlocked: Option<OwnerAccessGuard>,
}

/// The next step for a counted entry.
enum NextStep {
    Descend,
    Skip,
}

struct Walk<'a> {
    ceiling: UsageLimits,
    used: &'a mut DiskUsage,
    device: u64,
    /// Counted directories, and counted files with several names.
    visited: HashSet<InodeId>,
    pending: usize,
}

impl Walk<'_> {
    fn all(&mut self, top: Dir, at: InodeId) {
        let unlocked = OwnerAccessGuard::take(&top);
        let Some(pending) = self.list(&top) else { return };
        let mut here = top;
        let mut levels = vec![Level { inode_id: at, handle: here.try_clone().ok(), pending, _unlocked: unlocked }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.pending.pop() else {
                levels.pop();
                match self.ascend(&mut levels, &here) {
                    Some(dir) => here = dir,
                    None => return,
                }
                continue;
            };
            self.pending -= 1;
            let Some((inner, inode_id)) = self.open_unvisited(&here, &name) else { continue };
            let keeps_handle = levels.len() < MAX_OPEN_LEVELS;
            let unlocked = if keeps_handle { OwnerAccessGuard::take(&inner) } else { None };
            let Some(pending) = self.list(&inner) else { return };
            let handle = if keeps_handle { inner.try_clone().ok() } else { None };
            levels.push(Level { inode_id, handle, pending, _unlocked: unlocked });
            here = inner;
        }
    }

    /// Returns the directory of the last level. Drops levels that are no longer above `here`.
    fn ascend(&mut self, levels: &mut Vec<Level>, here: &Dir) -> Option<Dir> {
        let mut from = parent_dir(here).ok();
        while let Some(level) = levels.last() {
            if let Some(dir) = level.handle.as_ref().and_then(|dir| dir.try_clone().ok()) {
                return Some(dir);
            }
            let found = from.take().and_then(|dir| Some((inode_id(&dir.dir_metadata().ok()?), dir)));
            match found {
                Some((inode_id, dir)) if inode_id == level.inode_id => return Some(dir),
                // The directory was moved, so its parent may be any directory.
                _ => {
                    self.used.unreadable += level.pending.len() as u64;
                    self.pending -= level.pending.len();
                    levels.pop();
                }
            }
        }
        None
    }

    /// Opens a directory on the same file system that was not inspected before.
    fn open_unvisited(&mut self, dir: &Dir, name: &OsString) -> Option<(Dir, InodeId)> {
        let opened = open_dir(dir, name).and_then(|inner| {
            let inode_id = inode_id(&inner.dir_metadata()?);
            Ok((inner, inode_id))
        });
        match opened {
            Ok((_, inode_id)) if inode_id.0 != self.device => self.used.unreadable += 1,
            Ok((inner, inode_id)) => return self.visited.insert(inode_id).then_some((inner, inode_id)),
            Err(e) => self.record_unreadable(&e),
        }
        None
    }

    /// Counts the entries of a directory. Returns its subdirectories, or `None` to end the walk.
    fn list(&mut self, dir: &Dir) -> Option<Vec<OsString>> {
        let mut pending = Vec::new();
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => {
                self.record_unreadable(&e);
                return Some(pending);
            }
        };
        for entry in entries {
            let (entry, meta) = match entry.and_then(|entry| entry.metadata().map(|meta| (entry, meta))) {
                Ok(found) => found,
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => {
                    self.record_unreadable(&e);
                    return Some(pending);
                }
            };
            match self.count(&meta) {
                NextStep::Skip => {}
                NextStep::Descend if self.pending < MAX_PENDING_DIRS => {
                    self.pending += 1;
                    pending.push(entry.file_name());
                }
                NextStep::Descend => self.used.unreadable += 1,
            }
            if self.used.is_over(self.ceiling) {
                return None;
            }
            if self.used.entries >= MAX_ENTRIES {
                self.used.unreadable += 1;
                return None;
            }
        }
        Some(pending)
    }

    fn count(&mut self, meta: &Metadata) -> NextStep {
        self.used.entries += 1;
        if meta.is_dir() || meta.nlink() < 2 || self.visited.insert(inode_id(meta)) {
            self.used.bytes = self.used.bytes.saturating_add(allocated_bytes(meta));
        }
        if meta.is_dir() { NextStep::Descend } else { NextStep::Skip }
    }

    /// Records a directory that cannot be inspected. A directory that is gone or was replaced does not count.
    fn record_unreadable(&mut self, error: &io::Error) {
        let replaced = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        self.used.unreadable += u64::from(!replaced);
    }
}

//! Finds what a job left in its working directory, by handle and following no link.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File, FileType};
use codebox_core::path::MappedPath;
use codebox_core::{FileChanges, FileKind, GuestPath, OutFile, SkippedFile};
use sha2::{Digest, Sha256};

use crate::budget::Budget;
use crate::collect::Left;
use crate::hex::hex;
use crate::open::{open_dir, open_file};
use crate::sys::changed_at;

/// Most files listed; the rest are counted.
const MAX_LISTED: usize = 10_000;
/// Most directories deep.
const MAX_DEPTH: usize = 64;
/// Most bytes hashed in one file.
const MAX_HASHED: u64 = 1 << 30;

/// The sha256 of what stood in the working directory before the job, by guest path, where that is known: put there by us.
pub type Before = BTreeMap<String, String>;

/// Lists what a job changed below a directory.
///
/// A directory that was granted is the user's and full of files that the job never saw; what changed in it is what
/// the system says was changed since the job began. A link, a device or anything else that is no file or directory
/// is named and not looked into.
pub(crate) fn changes(left: &Left<'_>, budget: &mut Budget) -> FileChanges {
    let &Left { dir, at, since, before } = left;
    let mut walk = Walk { since, before, budget, digests: BTreeMap::new(), found: FileChanges::default() };
    walk.directory(dir, at, 0);
    let by_path = |files: &mut Vec<OutFile>| files.sort_by(|a, b| a.guest.as_str().cmp(b.guest.as_str()));
    by_path(&mut walk.found.created);
    by_path(&mut walk.found.modified);
    walk.found
}

struct Walk<'a> {
    since: SystemTime,
    before: &'a Before,
    budget: &'a mut Budget,
    /// What files with more than one name were found to hold, by device and number.
    digests: BTreeMap<(u64, u64), Option<String>>,
    found: FileChanges,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Dir, at: &GuestPath, depth: usize) {
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => return self.skip(at.as_str().as_bytes(), &format!("cannot be listed: {e}")),
        };
        for entry in entries {
            if self.budget.is_over() {
                return self.skip(at.as_str().as_bytes(), &self.budget.refusal());
            }
            let Ok(entry) = entry else { return self.skip(at.as_str().as_bytes(), "cannot be listed to its end") };
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            let Some(path) = name.to_str().and_then(|name| at.child(name).ok()) else {
                self.skip(bytes, "its name is no guest path");
                continue;
            };
            let Ok(meta) = dir.symlink_metadata(&name) else { continue };
            let kind = meta.file_type();
            if kind.is_dir() {
                if depth == MAX_DEPTH {
                    self.skip(bytes, "it lies too deep");
                } else if let Ok(inner) = open_dir(dir, &name) {
                    self.directory(&inner, &path, depth + 1);
                }
                continue;
            }
            if !self.changed(&meta) {
                continue;
            }
            if !kind.is_file() {
                self.special(path, kind, &meta);
                continue;
            }
            self.file(dir, &name, path);
        }
    }

    /// Whether the system's change time, which no program can set, says so.
    fn changed(&self, meta: &cap_std::fs::Metadata) -> bool {
        changed_at(meta) >= self.since
    }

    fn file(&mut self, dir: &Dir, name: &std::ffi::OsStr, guest: GuestPath) {
        let opened = open_file(dir, name).and_then(|file| {
            let meta = file.metadata()?;
            Ok((file, meta))
        });
        let (mut file, meta) = match opened {
            Ok(opened) => opened,
            Err(e) => return self.skip(guest.as_str().as_bytes(), &e.to_string()),
        };
        let born = meta.created().ok().map(cap_std::time::SystemTime::into_std);
        let sha256 = self.digest(&mut file, &meta);
        let known = self.before.get(guest.as_str());
        if known.is_some() && known == sha256.as_ref() {
            return;
        }
        let created = known.is_none() && born.is_none_or(|born| born >= self.since);
        let out = OutFile { guest, host: None, size: meta.len(), sha256, kind: FileKind::Regular };
        self.list(out, created);
    }

    /// A file's digest; nothing for one that is too long to be looked through.
    fn digest(&mut self, file: &mut File, meta: &cap_std::fs::Metadata) -> Option<String> {
        let key = (meta.dev(), meta.ino());
        if let Some(known) = self.digests.get(&key) {
            return known.clone();
        }
        let fits = meta.len() <= MAX_HASHED && self.budget.take(meta.len());
        let found = fits.then(|| digest(file, self.budget).ok()).flatten();
        if meta.nlink() > 1 {
            self.digests.insert(key, found.clone());
        }
        found
    }

    fn special(&mut self, guest: GuestPath, kind: FileType, meta: &cap_std::fs::Metadata) {
        let kind = if kind.is_symlink() { FileKind::Symlink } else { FileKind::Special };
        self.list(OutFile { guest, host: None, size: meta.len(), sha256: None, kind }, true);
    }

    fn list(&mut self, file: OutFile, created: bool) {
        if self.found.created.len() + self.found.modified.len() >= MAX_LISTED {
            self.found.dropped += 1;
        } else if created {
            self.found.created.push(file);
        } else {
            self.found.modified.push(file);
        }
    }

    fn skip(&mut self, name: &[u8], reason: &str) {
        if self.found.skipped.len() < MAX_LISTED {
            self.found.skipped.push(SkippedFile { name: name.to_vec(), reason: reason.to_owned() });
        } else {
            self.found.dropped += 1;
        }
    }
}

/// The sha256 of at most [`MAX_HASHED`] bytes, in hexadecimal.
fn digest(file: &mut File, budget: &Budget) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut taken = file.take(MAX_HASHED);
    loop {
        if budget.is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match taken.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

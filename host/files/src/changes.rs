//! Listing of a job's changes in its working directory, by handle and without following links.

use std::ffi::OsStr;
use std::io::ErrorKind;

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File, FileType, Metadata};
use codebox_core::path::MappedPath;
use codebox_core::{FileChanges, FileKind, GuestPath, OutFile};

use crate::budget::Budget;
use crate::collect::{Left, Owner};
use crate::open::{open_below, open_dir, open_file, parts_below};
use crate::sys::{changed_at, lent_powers, special_kind};

mod deleted;
mod digest;
mod found;
mod names;

use deleted::deleted;
use digest::{Digests, MAX_HASHED};
use found::Found;
use names::Names;

/// The largest depth of directories.
const MAX_DEPTH: usize = 64;

/// Lists the changes of a job below a directory.
///
/// A granted directory belongs to the user and contains files that the job never used. The changes in it are the files
/// whose change time is not earlier than the start of the job. Links, devices and other special files are listed but
/// not opened. A file of the job's own directory that has a name outside of it is not read either.
pub(crate) fn changes(left: &Left<'_>, budget: &mut Budget) -> FileChanges {
    let mut walk = Walk { left, budget, digests: Digests::default(), names: Names::default(), found: Found::default() };
    walk.directory(left.dir, left.at, 0);
    walk.settle_names();
    let mut found = walk.found.0;
    found.deleted = deleted(left);
    for files in [&mut found.created, &mut found.modified] {
        files.sort_by(|a, b| a.guest.as_str().cmp(b.guest.as_str()));
    }
    found
}

struct Walk<'a> {
    left: &'a Left<'a>,
    budget: &'a mut Budget,
    digests: Digests,
    /// Files with several names, until all of their names are known.
    names: Names,
    found: Found,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Dir, at: &GuestPath, depth: usize) {
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => return self.found.skip(at.as_str().as_bytes(), &format!("cannot be listed: {e}")),
        };
        for entry in entries {
            if self.budget.is_over() {
                return self.found.skip(at.as_str().as_bytes(), &self.budget.refusal());
            }
            let Ok(entry) = entry else {
                return self.found.skip(at.as_str().as_bytes(), "cannot be listed completely");
            };
            let name = entry.file_name();
            let Some(path) = name.to_str().and_then(|name| at.child(name).ok()) else {
                self.found.skip(
                    &[at.as_str().as_bytes(), b"/", name.as_encoded_bytes()].concat(),
                    "its name is not a valid guest path",
                );
                continue;
            };
            match dir.symlink_metadata(&name) {
                Ok(meta) => self.entry(dir, &name, path, &meta, depth),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => self.found.skip(path.as_str().as_bytes(), &format!("cannot be inspected: {e}")),
            }
        }
    }

    fn entry(&mut self, dir: &Dir, name: &OsStr, path: GuestPath, meta: &Metadata, depth: usize) {
        let kind = meta.file_type();
        if kind.is_dir() && depth == MAX_DEPTH {
            let why = format!("it is more than {MAX_DEPTH} directories deep; its content is not listed");
            self.found.skip(path.as_str().as_bytes(), &why);
        } else if kind.is_dir() {
            match open_dir(dir, name) {
                Ok(inner) => self.directory(&inner, &path, depth + 1),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => self.found.skip(path.as_str().as_bytes(), &format!("cannot be opened: {e}")),
            }
        } else if changed_at(meta) < self.left.since {
            // The change time, which no program can set, precedes the job, so the job did not change the entry.
        } else if kind.is_file() {
            self.file(dir, name, path);
        } else {
            self.special(path, kind, meta);
        }
    }

    fn file(&mut self, dir: &Dir, name: &OsStr, guest: GuestPath) {
        let opened = open_file(dir, name).and_then(|file| {
            let meta = file.metadata()?;
            Ok((file, meta))
        });
        let (mut file, meta) = match opened {
            Ok(opened) => opened,
            Err(e) => return self.found.skip(guest.as_str().as_bytes(), &format!("cannot be read: {e}")),
        };
        let known = self.left.before.contains_key(guest.as_str());
        let born = meta.created().ok().map(cap_std::time::SystemTime::into_std);
        let created = !known && born.is_none_or(|born| born >= self.left.since);
        let file_of = OutFile { guest, host: None, size: meta.len(), sha256: None, kind: FileKind::Regular };
        if self.left.owner == Owner::Job && meta.nlink() > 1 {
            // The file is read only after all its names are known to be in the job's directory.
            if let Err(file) = self.names.hold(&meta, file_of, created) {
                self.found.skip(file.guest.as_str().as_bytes(), "too many files have several hard links");
            }
            return;
        }
        self.read(&mut file, &meta, file_of, created);
    }

    fn read(&mut self, file: &mut File, meta: &Metadata, mut out: OutFile, created: bool) {
        out.sha256 = self.digests.of(file, meta, self.budget);
        let known = self.left.before.get(out.guest.as_str());
        if known.is_some_and(|known| out.sha256.as_ref() == Some(&known.sha256)) {
            return;
        }
        if let Some(bits) = lent_powers(meta) {
            self.found.skip(out.guest.as_str().as_bytes(), &format!("its {bits}; the file is listed without them"));
        }
        if out.size > MAX_HASHED {
            self.found.skip(
                out.guest.as_str().as_bytes(),
                &format!("its sha256: the file is larger than {MAX_HASHED} bytes"),
            );
        }
        self.found.list(out, created);
    }

    /// Lists the files whose several names are all in this directory.
    fn settle_names(&mut self) {
        for (file, created, whole) in std::mem::take(&mut self.names).settle() {
            let name = file.guest.as_str().to_owned();
            if !whole {
                self.found.skip(name.as_bytes(), "it has another hard link outside this directory");
                continue;
            }
            let opened = open_below(self.left.dir, &parts_below(&file.guest, self.left.at)).and_then(|file| {
                let meta = file.metadata()?;
                Ok((file, meta))
            });
            match opened {
                Ok((mut opened, meta)) => self.read(&mut opened, &meta, file, created),
                Err(e) => self.found.skip(name.as_bytes(), &format!("cannot be read: {e}")),
            }
        }
    }

    fn special(&mut self, guest: GuestPath, kind: FileType, meta: &Metadata) {
        let created = !self.left.before.contains_key(guest.as_str());
        let mut kind_of = FileKind::Symlink;
        if !kind.is_symlink() {
            self.found.skip(guest.as_str().as_bytes(), &format!("it is {}, which is never opened", special_kind(kind)));
            kind_of = FileKind::Special;
        }
        self.found.list(OutFile { guest, host: None, size: meta.len(), sha256: None, kind: kind_of }, created);
    }
}

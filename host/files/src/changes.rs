//! Listing of a job's changes in its working directory, by handle and without following links.

use std::ffi::OsStr;
use std::io::ErrorKind;

use cap_fs_ext::MetadataExt;
use cap_std::fs::{Dir, File, FileType, Metadata};
use codebox_core::path::MappedPath;
use codebox_core::{FileChanges, FileKind, GuestPath, OutFile};

use crate::budget::Budget;
use crate::open::{components_below, open_dir, open_file, open_file_below};
use crate::sys::{change_time, set_id_bits, special_kind};
use crate::work_dir::{JobWorkDir, Owner};

mod deleted;
mod digest;
mod found;
mod hard_links;

use deleted::deleted;
use digest::{Digests, MAX_HASHED_BYTES};
use found::ChangeList;
use hard_links::HardLinks;

/// The largest depth of directories.
const MAX_DEPTH: usize = 64;

/// Lists the changes of a job below a directory.
///
/// A granted directory belongs to the user and contains files that the job never used. The changes in it are the files
/// whose change time is not earlier than the start of the job. Links, devices and other special files are listed but
/// not opened. A file of the job's own directory that has a name outside of it is not read either.
pub(crate) fn changes(work_dir: &JobWorkDir<'_>, budget: &mut Budget) -> FileChanges {
    let mut walk = Walk {
        work_dir,
        budget,
        digests: Digests::default(),
        hard_links: HardLinks::default(),
        found: ChangeList::default(),
    };
    walk.directory(work_dir.dir, work_dir.at, 0);
    walk.list_hard_links();
    let mut found = walk.found.0;
    found.deleted = deleted(work_dir);
    for files in [&mut found.created, &mut found.modified] {
        files.sort_by(|a, b| a.guest.as_str().cmp(b.guest.as_str()));
    }
    found
}

struct Walk<'a> {
    work_dir: &'a JobWorkDir<'a>,
    budget: &'a mut Budget,
    digests: Digests,
    /// Files with several names, until all of their names are known.
    hard_links: HardLinks,
    found: ChangeList,
}

impl Walk<'_> {
    fn directory(&mut self, dir: &Dir, at: &GuestPath, depth: usize) {
        let entries = match dir.entries() {
            Ok(entries) => entries,
            Err(e) => return self.found.skip(at.as_str().as_bytes(), &format!("cannot be listed: {e}")),
        };
        for entry in entries {
            if self.budget.was_cancelled() {
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
        } else if change_time(meta) < self.work_dir.since {
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
        let known = self.work_dir.before.contains_key(guest.as_str());
        let birth_time = meta.created().ok().map(cap_std::time::SystemTime::into_std);
        let created = !known && birth_time.is_none_or(|birth_time| birth_time >= self.work_dir.since);
        let out_file = OutFile { guest, host: None, size: meta.len(), sha256: None, kind: FileKind::Regular };
        if self.work_dir.owner == Owner::Job && meta.nlink() > 1 {
            // The file is read only after all its names are known to be in the job's directory.
            if let Err(file) = self.hard_links.add(&meta, out_file, created) {
                self.found.skip(file.guest.as_str().as_bytes(), "too many files have several hard links");
            }
            return;
        }
        self.read(&mut file, &meta, out_file, created);
    }

    fn read(&mut self, file: &mut File, meta: &Metadata, mut out: OutFile, created: bool) {
        out.sha256 = self.digests.of(file, meta, self.budget);
        let known = self.work_dir.before.get(out.guest.as_str());
        if known.is_some_and(|known| out.sha256.as_ref() == Some(&known.sha256)) {
            return;
        }
        if let Some(bits) = set_id_bits(meta) {
            self.found.skip(out.guest.as_str().as_bytes(), &format!("its {bits}; the file is listed without them"));
        }
        if out.size > MAX_HASHED_BYTES {
            self.found.skip(
                out.guest.as_str().as_bytes(),
                &format!("its sha256: the file is larger than {MAX_HASHED_BYTES} bytes"),
            );
        }
        self.found.list(out, created);
    }

    /// Lists the files whose several names are all in this directory.
    fn list_hard_links(&mut self) {
        for (file, created, is_complete) in std::mem::take(&mut self.hard_links).into_files() {
            let name = file.guest.as_str().to_owned();
            if !is_complete {
                self.found.skip(name.as_bytes(), "it has another hard link outside this directory");
                continue;
            }
            let opened =
                open_file_below(self.work_dir.dir, &components_below(&file.guest, self.work_dir.at)).and_then(|file| {
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
        let created = !self.work_dir.before.contains_key(guest.as_str());
        let mut file_kind = FileKind::Symlink;
        if !kind.is_symlink() {
            self.found.skip(guest.as_str().as_bytes(), &format!("it is {}, which is never opened", special_kind(kind)));
            file_kind = FileKind::Special;
        }
        self.found.list(OutFile { guest, host: None, size: meta.len(), sha256: None, kind: file_kind }, created);
    }
}

//! Brings a job's files out to a directory of the host.

use std::io::{self, Read, Write};

use cap_std::fs::{Dir, OpenOptions};
use codebox_core::path::MappedPath;
use codebox_core::{FileChanges, FileKind, HostPath, OutFile, SkippedFile};

use crate::budget::Budget;
use crate::collect::Left;
use crate::open::{make_dirs, open_dir, open_file};

/// Copies every regular file of `changes` from where a job left it to `out`, which is the host's `to`.
///
/// Files are written beside their place under another name and then renamed, so that nobody sees half a file and a
/// link that stands in the way is replaced and not followed. What cannot be brought, or would be more than `budget`, is
/// named with the reason.
pub(crate) fn bring_out(changes: &mut FileChanges, left: &Left<'_>, (out, to): (&Dir, &HostPath), budget: &mut Budget) {
    let Left { dir: work, at, .. } = left;
    let FileChanges { created, modified, skipped, .. } = changes;
    for file in created.iter_mut().chain(modified) {
        if file.kind != FileKind::Regular {
            skipped.push(skip(file, "links and special files stay inside"));
            continue;
        }
        let parts: Vec<&str> = file.guest.components().skip(at.components().count()).collect();
        match copy(work, out, &parts, budget) {
            Ok(()) => file.host = parts.iter().try_fold(to.clone(), |path, part| path.child(part)).ok(),
            Err(e) => skipped.push(skip(file, &format!("cannot be brought out: {e}"))),
        }
    }
}

fn skip(file: &OutFile, reason: &str) -> SkippedFile {
    SkippedFile { name: file.guest.as_str().as_bytes().to_vec(), reason: reason.to_owned() }
}

fn copy(work: &Dir, out: &Dir, parts: &[&str], budget: &mut Budget) -> io::Result<()> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut from = work.try_clone()?;
    for parent in parents {
        from = open_dir(&from, parent.as_ref())?;
    }
    let source = open_file(&from, name.as_ref())?;
    let len = source.metadata()?.len();
    if !budget.take(len) {
        return Err(io::Error::other(budget.refusal()));
    }
    let to = make_dirs(out, parents)?;
    // Short whatever the name is, and nobody's who writes to the same directory.
    let temp = format!(".codebox-{}-{:016x}", std::process::id(), rand::random::<u64>());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut target = to.open_with(&temp, &options)?;
    let copied = copy_bytes(source.take(len), &mut target, budget).and_then(|()| to.rename(&temp, &to, name));
    if copied.is_err() {
        let _ = to.remove_file(&temp);
    }
    copied
}

/// Copies to the end, or until the caller wants no more.
fn copy_bytes(mut source: impl Read, target: &mut impl Write, budget: &Budget) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    loop {
        if budget.is_over() {
            return Err(io::Error::other(budget.refusal()));
        }
        match source.read(&mut buffer)? {
            0 => return target.flush(),
            count => target.write_all(&buffer[..count])?,
        }
    }
}

//! Copying of a job's files to a host directory.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use codebox_core::path::MappedPath;
use codebox_core::{FileChanges, FileKind, HostPath, OutFile, OutGuard, SkippedFile};
use sha2::{Digest, Sha256};

use crate::budget::Budget;
use crate::git::{completes_repository, is_git_name};
use crate::hex::hex;
use crate::open::{components_below, make_dirs, open_file_below};
use crate::project::{IGNORE_FILE, excluded};
use crate::sys::{allocated_bytes, change_time, is_executable, set_executable};
use crate::work_dir::JobWorkDir;

/// The length in bytes above which a sparse file is rejected.
const MAX_SPARSE_LEN: u64 = 1 << 30;
/// The largest ratio of length to allocated bytes for a longer file. Some file systems compress.
const MAX_SPARSE_RATIO: u64 = 64;

/// Copies every regular file of `changes` from the job's directory to `out`, which is the host path `to`.
///
/// Files are written under a temporary name in the same directory and then renamed, so that partial files are never
/// visible and an existing link is replaced instead of followed. Of the mode, only the owner's execute bit is
/// preserved. A file that cannot be copied, changes during the copy or exceeds `budget` is reported with the reason. So
/// is a file in a `.git` directory, and a file that would make its directory a repository, because git runs programs
/// that such directories name.
pub(crate) fn copy_outputs(
    changes: &mut FileChanges,
    work_dir: &JobWorkDir<'_>,
    out: &Dir,
    to: &HostPath,
    budget: &mut Budget,
) {
    let FileChanges { created, modified, skipped, .. } = changes;
    for file in created.iter_mut().chain(modified) {
        match file.kind {
            FileKind::Regular => {}
            // Special files were already reported by the listing.
            FileKind::Special => continue,
            FileKind::Symlink | FileKind::Directory => {
                skipped.push(skip(file, "links are not copied"));
                continue;
            }
        }
        let parts = components_below(&file.guest, work_dir.at);
        if parts.iter().any(|part| is_git_name(part)) {
            skipped.push(skip(file, "files of a .git directory are not copied"));
            continue;
        }
        if let Some(reason) = guarded(work_dir, out, &parts, file) {
            skipped.push(skip(file, reason));
            continue;
        }
        match copy(work_dir.dir, out, &parts, file, budget) {
            Ok(()) => file.host = parts.iter().try_fold(to.clone(), |path, part| path.child(part)).ok(),
            Err(e) => skipped.push(skip(file, &format!("cannot be copied: {e}"))),
        }
    }
}

/// Returns the reason that a file is not written to a directory with files of the project. Names are compared without case, as some file
/// systems do.
fn guarded(work_dir: &JobWorkDir<'_>, out: &Dir, parts: &[&str], file: &OutFile) -> Option<&'static str> {
    if work_dir.guard == OutGuard::None {
        return None;
    }
    if parts.iter().any(|part| excluded(part, true).or_else(|| excluded(part, false)).is_some()) {
        return Some("files of this name are not part of a project");
    }
    // Its patterns decide which files the next copy of the project has.
    if parts.last().is_some_and(|name| name.eq_ignore_ascii_case(IGNORE_FILE)) {
        return Some("a program may not change the files that its project leaves out");
    }
    let is_input = work_dir.before.contains_key(file.guest.as_str());
    let exists = || out.symlink_metadata(parts.iter().collect::<PathBuf>()).is_ok();
    (work_dir.guard == OutGuard::Existing && !is_input && exists())
        .then_some("the program had no copy of the existing file")
}

fn skip(file: &OutFile, reason: &str) -> SkippedFile {
    SkippedFile { name: file.guest.as_str().as_bytes().to_vec(), reason: reason.to_owned() }
}

fn copy(work: &Dir, out: &Dir, parts: &[&str], listed: &OutFile, budget: &mut Budget) -> io::Result<()> {
    let Some((name, parents)) = parts.split_last() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut source = open_file_below(work, parts)?;
    let meta = source.metadata()?;
    let len = meta.len();
    if len > MAX_SPARSE_LEN && allocated_bytes(&meta) < len / MAX_SPARSE_RATIO {
        return Err(io::Error::other(format!(
            "it is a sparse file of {len} bytes with {} bytes allocated",
            allocated_bytes(&meta)
        )));
    }
    if !budget.take(len) {
        return Err(io::Error::other(budget.refusal()));
    }
    let to = make_parents(out, parents, name)?;
    // The temporary name is short and unique among the processes that write to the same directory.
    let temp = format!(".codebox-{}-{:016x}", std::process::id(), rand::random::<u64>());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if is_executable(&meta) {
        set_executable(&mut options);
    }
    let mut target = to.open_with(&temp, &options)?;
    let copied = copy_bytes((&mut source).take(len), &mut target, budget)
        .and_then(|digest| check_unchanged(&source, &meta, listed, &digest))
        .and_then(|()| to.rename(&temp, &to, name));
    if copied.is_err() {
        let _ = to.remove_file(&temp);
    }
    copied
}

/// Opens the parent directory of an output file and creates missing directories. No component may complete a
/// repository.
fn make_parents(out: &Dir, parents: &[&str], name: &str) -> io::Result<Dir> {
    let refusal = "it would turn its directory into a git repository, whose configuration can run programs";
    let check = |dir: &Dir, part| {
        if completes_repository(dir, part) { Err(io::Error::other(refusal)) } else { Ok(()) }
    };
    let mut dir = out.try_clone()?;
    for parent in parents {
        check(&dir, parent)?;
        dir = make_dirs(&dir, &[parent])?;
    }
    check(&dir, name)?;
    Ok(dir)
}

/// Checks that the file did not change during the copy and is the one that was listed.
fn check_unchanged(source: &File, before: &Metadata, listed: &OutFile, digest: &str) -> io::Result<()> {
    let after = source.metadata()?;
    let same = (after.len(), change_time(&after)) == (before.len(), change_time(before));
    if same && listed.size == after.len() && listed.sha256.as_ref().is_none_or(|listed| listed == digest) {
        return Ok(());
    }
    Err(io::Error::other("it changed while it was copied"))
}

/// Copies to the end of the file, or until the caller cancels. Returns the sha256 of the copied bytes.
fn copy_bytes(mut source: impl Read, target: &mut impl Write, budget: &Budget) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        if budget.was_cancelled() {
            return Err(io::Error::other(budget.refusal()));
        }
        match source.read(&mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                target.write_all(&buffer[..count])?;
            }
        }
    }
    target.flush()?;
    Ok(hex(&hasher.finalize()))
}

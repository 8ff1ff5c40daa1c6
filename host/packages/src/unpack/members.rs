//! Members of an archive, which are all checked before any is unpacked.

use std::collections::HashSet;
use std::fs::File;
use std::path::Path;

use zip::ZipArchive;

use super::{UnpackLimits, names};
use crate::error::{Cause, UnpackError};

/// File type bits of a Unix mode.
const FILE_TYPE_MASK: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

/// A file to unpack.
pub(super) struct Member {
    /// The index in the archive.
    pub(super) at: usize,
    pub(super) name: String,
    /// The declared unpacked size in bytes.
    pub(super) size: u64,
}

pub(super) fn open(wheel: &Path) -> Result<ZipArchive<File>, UnpackError> {
    let file = File::open(wheel).map_err(|source| UnpackError::Open { path: wheel.to_owned(), source })?;
    ZipArchive::new(file).map_err(|error| unsound(wheel, error))
}

/// Returns the selected files, after checking every member of the archive.
pub(super) fn choose(
    archive: &mut ZipArchive<File>,
    wheel: &Path,
    select: &[&str],
    limits: &UnpackLimits,
) -> Result<Vec<Member>, UnpackError> {
    refuse_duplicates(archive, wheel, limits)?;
    let mut chosen = Vec::new();
    let mut remaining = limits.bytes;
    let mut missing: Vec<&str> = select.to_vec();
    for at in 0..archive.len() {
        let entry = archive.by_index_raw(at).map_err(|error| unsound(wheel, error))?;
        let name = std::str::from_utf8(entry.name_raw()).unwrap_or_default();
        if name != entry.name() || !names::is_safe_path(name) {
            return Err(UnpackError::Name(names::truncated(entry.name())));
        }
        let kind = entry.unix_mode().unwrap_or(0) & FILE_TYPE_MASK;
        let expected = if entry.is_dir() { DIRECTORY } else { REGULAR };
        if kind != 0 && kind != expected {
            return Err(UnpackError::Kind(names::truncated(name)));
        }
        if entry.is_dir() || !select.iter().any(|selector| selects(selector, name)) {
            continue;
        }
        missing.retain(|selector| !selects(selector, name));
        remaining = remaining
            .checked_sub(entry.size())
            .ok_or_else(|| UnpackError::TooLarge { member: name.to_owned(), allowed: limits.bytes })?;
        chosen.push(Member { at, name: name.to_owned(), size: entry.size() });
    }
    match missing.first() {
        Some(name) => Err(UnpackError::Missing((*name).to_owned())),
        None => Ok(chosen),
    }
}

fn refuse_duplicates(archive: &mut ZipArchive<File>, wheel: &Path, limits: &UnpackLimits) -> Result<(), UnpackError> {
    let start = archive.central_directory_start();
    // The file is opened again, since the archive does not expose its own.
    let file = File::open(wheel).map_err(|source| UnpackError::Open { path: wheel.to_owned(), source })?;
    let raw_names = names::raw_names(&file, start, limits.members).map_err(|error| unsound(wheel, error))?;
    limits.check_member_count(raw_names.len())?;
    let count = raw_names.len();
    let mut seen = HashSet::new();
    for name in raw_names {
        // Some systems ignore case, and a file and a directory cannot have the same name.
        let text = String::from_utf8_lossy(&name);
        let folded = text.strip_suffix('/').unwrap_or(&text).to_lowercase();
        if !seen.insert(folded) {
            return Err(UnpackError::Duplicate(names::truncated(&text)));
        }
    }
    // If the two counts differ, some readers do not see all members.
    if count != archive.len() {
        return Err(unsound(wheel, "its central directory has another number of members"));
    }
    Ok(())
}

/// Returns true if `selector` is this member's name or, if it is empty or ends in `/`, a directory above the member.
fn selects(selector: &str, name: &str) -> bool {
    match selector.is_empty() || selector.ends_with('/') {
        true => name.starts_with(selector),
        false => name == selector,
    }
}

fn unsound(wheel: &Path, source: impl Into<Cause>) -> UnpackError {
    UnpackError::Archive { path: wheel.to_owned(), source: source.into() }
}

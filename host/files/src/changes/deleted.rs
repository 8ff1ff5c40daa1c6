//! Detection of input files that a job deleted.

use std::io::{self, ErrorKind};

use cap_std::fs::Dir;
use codebox_core::path::MappedPath;
use codebox_core::{FileKind, GuestPath, OutFile};

use crate::open::{components_below, open_dir};
use crate::work_dir::JobWorkDir;

/// Returns the deleted input files. Other deletions cannot be detected.
pub(super) fn deleted(work_dir: &JobWorkDir<'_>) -> Vec<OutFile> {
    let input = work_dir.before.iter().filter_map(|(path, input)| Some((GuestPath::new(path.as_str()).ok()?, input)));
    input
        .filter(|(guest, _)| {
            guest.is_within(work_dir.at) && is_deleted(work_dir.dir, &components_below(guest, work_dir.at))
        })
        .map(|(guest, input)| OutFile {
            guest,
            host: None,
            size: input.size,
            sha256: Some(input.sha256.clone()),
            kind: FileKind::Regular,
        })
        .collect()
}

/// Returns true if no entry, or a directory, exists at the path of a file. An unreadable path counts as present.
fn is_deleted(dir: &Dir, parts: &[&str]) -> bool {
    let Some((name, parents)) = parts.split_last() else { return false };
    let check = || -> io::Result<bool> {
        let mut dir = dir.try_clone()?;
        for parent in parents {
            if !dir.symlink_metadata(parent)?.is_dir() {
                return Ok(true);
            }
            dir = open_dir(&dir, parent.as_ref())?;
        }
        Ok(dir.symlink_metadata(name)?.is_dir())
    };
    check().unwrap_or_else(|e| e.kind() == ErrorKind::NotFound)
}

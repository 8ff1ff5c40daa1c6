//! Detection of input files that a job deleted.

use std::io::{self, ErrorKind};

use cap_std::fs::Dir;
use codebox_core::path::MappedPath;
use codebox_core::{FileKind, GuestPath, OutFile};

use crate::collect::Left;
use crate::open::{open_dir, parts_below};

/// Returns the deleted input files. Other deletions cannot be detected.
pub(super) fn deleted(left: &Left<'_>) -> Vec<OutFile> {
    let put = left.before.iter().filter_map(|(path, put)| Some((GuestPath::new(path.as_str()).ok()?, put)));
    put.filter(|(guest, _)| guest.is_within(left.at) && is_gone(left.dir, &parts_below(guest, left.at)))
        .map(|(guest, put)| OutFile {
            guest,
            host: None,
            size: put.size,
            sha256: Some(put.sha256.clone()),
            kind: FileKind::Regular,
        })
        .collect()
}

/// Returns true if no entry, or a directory, exists at the path of a file. An unreadable path counts as present.
fn is_gone(dir: &Dir, parts: &[&str]) -> bool {
    let Some((name, parents)) = parts.split_last() else { return false };
    let look = || -> io::Result<bool> {
        let mut dir = dir.try_clone()?;
        for parent in parents {
            if !dir.symlink_metadata(parent)?.is_dir() {
                return Ok(true);
            }
            dir = open_dir(&dir, parent.as_ref())?;
        }
        Ok(dir.symlink_metadata(name)?.is_dir())
    };
    look().unwrap_or_else(|e| e.kind() == ErrorKind::NotFound)
}

//! Files with several names, held until all names are known to be in the job's directory.

use std::collections::BTreeMap;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use codebox_core::OutFile;

use super::found::MAX_LISTED;

/// The held files by device and inode.
#[derive(Default)]
pub(super) struct Names {
    files: BTreeMap<(u64, u64), Several>,
    held: usize,
}

/// A file: its number of names, and the names found, each with a flag for a new file.
struct Several {
    names: u64,
    found: Vec<(OutFile, bool)>,
}

impl Names {
    /// Holds one name of a file. Returns the name if too many are held.
    pub(super) fn hold(&mut self, meta: &Metadata, file: OutFile, created: bool) -> Result<(), OutFile> {
        if self.held >= MAX_LISTED {
            return Err(file);
        }
        self.held += 1;
        let new = || Several { names: meta.nlink(), found: Vec::new() };
        self.files.entry((meta.dev(), meta.ino())).or_insert_with(new).found.push((file, created));
        Ok(())
    }

    /// Returns all held names, each with a flag that is true if the file has no other name.
    pub(super) fn settle(self) -> impl Iterator<Item = (OutFile, bool, bool)> {
        self.files.into_values().flat_map(|Several { names, found }| {
            let whole = found.len() as u64 == names;
            found.into_iter().map(move |(file, created)| (file, created, whole))
        })
    }
}

//! Files with several names, held until all names are known to be in the job's directory.

use std::collections::BTreeMap;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use codebox_core::OutFile;

use super::found::MAX_LISTED;

/// The held files by device and inode.
#[derive(Default)]
pub(super) struct HardLinks {
    files: BTreeMap<(u64, u64), LinkedFile>,
    count: usize,
}

/// A file: its number of names, and the names found, each with a flag for a new file.
struct LinkedFile {
    link_count: u64,
    found: Vec<(OutFile, bool)>,
}

impl HardLinks {
    /// Holds one name of a file. Returns the name if too many are held.
    pub(super) fn add(&mut self, meta: &Metadata, file: OutFile, created: bool) -> Result<(), OutFile> {
        if self.count >= MAX_LISTED {
            return Err(file);
        }
        self.count += 1;
        let new = || LinkedFile { link_count: meta.nlink(), found: Vec::new() };
        self.files.entry((meta.dev(), meta.ino())).or_insert_with(new).found.push((file, created));
        Ok(())
    }

    /// Returns all held names, each with a flag that is true if the file has no other name.
    pub(super) fn into_files(self) -> impl Iterator<Item = (OutFile, bool, bool)> {
        self.files.into_values().flat_map(|LinkedFile { link_count, found }| {
            let is_complete = found.len() as u64 == link_count;
            found.into_iter().map(move |(file, created)| (file, created, is_complete))
        })
    }
}

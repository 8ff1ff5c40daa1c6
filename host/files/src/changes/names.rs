//! Files with more than one name, held until it is known whether all of these are the job's.

use std::collections::BTreeMap;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use codebox_core::OutFile;

use super::found::MAX_LISTED;

/// By device and number.
#[derive(Default)]
pub(super) struct Names {
    files: BTreeMap<(u64, u64), Several>,
    held: usize,
}

/// One file: how many names it has, and those found, with whether they are new.
struct Several {
    names: u64,
    found: Vec<(OutFile, bool)>,
}

impl Names {
    /// Holds one of a file's names; gives it back where too many are held.
    pub(super) fn hold(&mut self, meta: &Metadata, file: OutFile, created: bool) -> Result<(), OutFile> {
        if self.held >= MAX_LISTED {
            return Err(file);
        }
        self.held += 1;
        let new = || Several { names: meta.nlink(), found: Vec::new() };
        self.files.entry((meta.dev(), meta.ino())).or_insert_with(new).found.push((file, created));
        Ok(())
    }

    /// All that were held, and of each whether its file has no other name.
    pub(super) fn settle(self) -> impl Iterator<Item = (OutFile, bool, bool)> {
        self.files.into_values().flat_map(|Several { names, found }| {
            let whole = found.len() as u64 == names;
            found.into_iter().map(move |(file, created)| (file, created, whole))
        })
    }
}

//! Bounded lists of changes.

use codebox_core::{FileChanges, OutFile, SkippedFile};

/// The largest number of listed files, and of skipped ones. Further files are only counted.
pub(super) const MAX_LISTED: usize = 10_000;

/// Changes up to the bound.
#[derive(Default)]
pub(super) struct ChangeList(pub(super) FileChanges);

impl ChangeList {
    pub(super) fn list(&mut self, file: OutFile, created: bool) {
        let FileChanges { created: new, modified, dropped, .. } = &mut self.0;
        if new.len() + modified.len() >= MAX_LISTED {
            *dropped += 1;
        } else if created {
            new.push(file);
        } else {
            modified.push(file);
        }
    }

    pub(super) fn skip(&mut self, name: &[u8], reason: &str) {
        if self.0.skipped.len() < MAX_LISTED {
            self.0.skipped.push(SkippedFile { name: name.to_vec(), reason: reason.to_owned() });
        } else {
            self.0.dropped += 1;
        }
    }
}

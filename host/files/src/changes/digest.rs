//! Digests of file contents.

use std::collections::BTreeMap;
use std::io::{self, Read};

use cap_fs_ext::MetadataExt;
use cap_std::fs::{File, Metadata};
use sha2::{Digest, Sha256};

use super::found::MAX_LISTED;
use crate::budget::Budget;
use crate::hex::hex;

/// The largest file that is hashed, in bytes.
pub(super) const MAX_HASHED_BYTES: u64 = 1 << 30;

/// The digests of files with several names, by device and inode.
#[derive(Default)]
pub(super) struct Digests(BTreeMap<(u64, u64), Option<String>>);

impl Digests {
    /// Returns the digest of a file, or `None` if the file is too long or cannot be read.
    pub(super) fn of(&mut self, file: &mut File, meta: &Metadata, budget: &mut Budget) -> Option<String> {
        let key = (meta.dev(), meta.ino());
        if let Some(known) = self.0.get(&key) {
            return known.clone();
        }
        let fits = meta.len() <= MAX_HASHED_BYTES && budget.take(meta.len());
        let found = fits.then(|| digest(file, budget).ok()).flatten();
        if meta.nlink() > 1 && self.0.len() < MAX_LISTED {
            self.0.insert(key, found.clone());
        }
        found
    }
}

/// Returns the sha256 of at most [`MAX_HASHED_BYTES`] bytes, in hexadecimal.
fn digest(file: &mut File, budget: &Budget) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    let mut taken = file.take(MAX_HASHED_BYTES);
    loop {
        if budget.was_cancelled() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        match taken.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

//! Temporary file of a download until its content is verified.

use std::io::Write;
use std::path::Path;

use sha2::Digest;
use tempfile::{Builder, NamedTempFile};

use super::search::Candidate;
use crate::error::FetchError;
use crate::pin::{Pin, Sha256};
use crate::unpack::sync_directory;
use codebox_core::Progress;

/// Maximum size in bytes of a wheel whose size is unknown: an endless response must not fill the disk.
pub(crate) const MAX_WHEEL_SIZE: u64 = 4 << 30;

/// A temporary file next to its destination, hashed as it grows. Dropping it unfinished removes the file.
pub(super) struct PartialDownload<'a> {
    file: NamedTempFile,
    hash: sha2::Sha256,
    received: u64,
    candidate: &'a Candidate,
    pin: &'a Pin,
    into: &'a Path,
    progress: &'a dyn Progress,
}

impl<'a> PartialDownload<'a> {
    pub(super) fn new(
        candidate: &'a Candidate,
        pin: &'a Pin,
        into: &'a Path,
        progress: &'a dyn Progress,
    ) -> Result<Self, FetchError> {
        let file = Builder::new()
            .prefix(".codebox-fetch-")
            .tempfile_in(parent_dir(into))
            .map_err(|source| unwritable(into, source))?;
        Ok(Self { file, hash: sha2::Sha256::new(), received: 0, candidate, pin, into, progress })
    }

    /// Appends the next bytes. Fails once there are more bytes than the pin's size.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let count = bytes.len() as u64;
        self.received += count;
        if self.received > self.pin.size.unwrap_or(MAX_WHEEL_SIZE) {
            return Err(self.wrong_size());
        }
        self.hash.update(bytes);
        let written = self.file.as_file_mut().write_all(bytes);
        written.map_err(|source| unwritable(self.into, source))?;
        self.progress.advanced(count);
        Ok(())
    }

    /// Renames the file to its destination, if it is the pinned file.
    pub(super) fn finish(self) -> Result<(), FetchError> {
        if self.pin.size.is_some_and(|size| size != self.received) {
            return Err(self.wrong_size());
        }
        let found = Sha256::from_bytes(self.hash.finalize().into());
        if found != self.pin.sha256 {
            return Err(self.candidate.wrong_hash(self.pin, found));
        }
        let into = self.into;
        // The sync comes first: after a power failure the name must not refer to a file without its bytes.
        let synced = self.file.as_file().sync_all();
        synced.map_err(|source| unwritable(into, source))?;
        self.file.persist(into).map_err(|error| unwritable(into, error.error))?;
        sync_directory(parent_dir(into));
        self.progress.finished();
        Ok(())
    }

    fn wrong_size(&self) -> FetchError {
        FetchError::WrongSize {
            file: self.candidate.file_name(),
            index: self.candidate.index.clone(),
            expected: self.pin.size.unwrap_or(MAX_WHEEL_SIZE),
            found: self.received,
        }
    }
}

fn unwritable(into: &Path, source: std::io::Error) -> FetchError {
    FetchError::Write { path: into.to_owned(), source }
}

fn parent_dir(into: &Path) -> &Path {
    match into.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

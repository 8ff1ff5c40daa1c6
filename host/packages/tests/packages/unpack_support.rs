//! Archives for tests, unmodified or damaged.

use std::fs;
use std::path::PathBuf;

use codebox_core::Silent;
use codebox_packages::{UnpackError, unpack_wheel};
use tempfile::{TempDir, tempdir};

use crate::support::is_empty;

/// An archive file, and a target directory that must stay empty if the archive is refused.
pub struct Case {
    pub files: TempDir,
    pub target_dir: TempDir,
}

impl Case {
    pub fn new(content: &[u8]) -> Self {
        let files = tempdir().expect("a directory");
        fs::write(files.path().join("a.whl"), content).expect("a file");
        let target_dir = tempdir().expect("a directory");
        Self { files, target_dir }
    }

    pub fn wheel(&self) -> PathBuf {
        self.files.path().join("a.whl")
    }

    pub fn out(&self) -> PathBuf {
        self.target_dir.path().join("out")
    }

    pub fn unpack(&self, select: &[&str]) -> Result<(), UnpackError> {
        unpack_wheel(&self.wheel(), select, &self.out(), &Silent)
    }

    /// Unpacks everything, which must fail and leave the directory empty.
    pub fn rejection(&self) -> UnpackError {
        let error = self.unpack(&[""]).expect_err("a refusal");
        assert!(is_empty(self.target_dir.path()), "{error}");
        error
    }
}

/// Replaces every occurrence of a text with another text of the same length.
pub fn patched(mut content: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    for at in 0..=content.len() - from.len() {
        if content[at..].starts_with(from) {
            content[at..at + to.len()].copy_from_slice(to);
        }
    }
    content
}

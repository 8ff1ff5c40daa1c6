//! Loaded code that an engine keeps, so that processes that are forked later need not load it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::code::CodeImage;
use crate::store::seal::Seal;

/// The files of loaded code: a directory, and each file's name and seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CodeFiles {
    pub dir: PathBuf,
    pub seals: Vec<(String, Seal)>,
}

/// Loaded code by its files. Files that were replaced have other seals, so the code of old files is not found.
#[derive(Default)]
pub(crate) struct KeptCode(Mutex<Vec<(CodeFiles, CodeImage)>>);

impl KeptCode {
    /// Returns true if nothing is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn get(&self, files: &CodeFiles) -> Option<CodeImage> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == files).map(|(_, code)| code.clone())
    }

    /// Keeps code for as long as the engine exists: the code refers to the engine in turn.
    pub(super) fn put(&self, files: CodeFiles, code: CodeImage) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((files, code));
    }
}

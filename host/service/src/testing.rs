//! Separation of tests that start processes from tests of file locks.
//!
//! Until it executes its program, a child process shares its parent's descriptors and their locks. A lock that a test
//! has just released can therefore still be held.

use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use codebox_analysis::Analyzer;
use tempfile::TempDir;

static CHILDREN: RwLock<()> = RwLock::new(());

/// An analyzer whose owner is the only test that may start processes.
pub(crate) struct Parser {
    pub analyzer: Analyzer,
    _folder: TempDir,
    _alone: RwLockWriteGuard<'static, ()>,
}

impl Parser {
    pub(crate) fn new() -> Self {
        let alone = CHILDREN.write().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a directory");
        Self { analyzer: Analyzer::below(&folder.path().join("programs")), _folder: folder, _alone: alone }
    }
}

/// A directory for file locks; while it exists, no test starts a process.
pub(crate) struct Home {
    folder: TempDir,
    _no_children: RwLockReadGuard<'static, ()>,
}

impl Home {
    pub(crate) fn new() -> Self {
        let no_children = CHILDREN.read().unwrap_or_else(PoisonError::into_inner);
        Self { folder: tempfile::tempdir().expect("a directory"), _no_children: no_children }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

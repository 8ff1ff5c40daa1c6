//! Keeps tests that start processes apart from tests of file locks.
//!
//! A child process shares the descriptors of its parent, and with them the locks, until its program starts. A lock that a test
//! has just given up can then still be held.

use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use codebox_analysis::Analyzer;
use tempfile::TempDir;

static CHILDREN: RwLock<()> = RwLock::new(());

/// An analyzer, and the only test at a time that may start processes.
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

/// A directory for file locks, during whose life no test starts a process.
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

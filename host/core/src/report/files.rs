use serde::{Deserialize, Serialize};

use crate::path::{GuestPath, HostPath};

/// Changes of a run to the files of its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FileChanges {
    /// Files that did not exist before.
    pub created: Vec<OutFile>,
    /// Files that existed before and whose content changed.
    pub modified: Vec<OutFile>,
    /// Files that existed before and no longer exist.
    pub deleted: Vec<OutFile>,
    /// Changes that could not be listed with the others.
    pub skipped: Vec<SkippedFile>,
    /// Number of changes that are not listed because there were too many.
    pub dropped: u64,
}

impl FileChanges {
    /// Returns true if no file changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { created, modified, deleted, skipped, dropped } = self;
        let listed = [created, modified, deleted].into_iter().all(Vec::is_empty);
        listed && skipped.is_empty() && *dropped == 0
    }
}

/// File that a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutFile {
    /// Path in the guest.
    pub guest: GuestPath,
    /// Path on the host, if the file is there.
    pub host: Option<HostPath>,
    /// Size in bytes; for a deleted file, its former size if known, else 0.
    pub size: u64,
    /// SHA-256 of the content in lower-case hexadecimal; `None` for a file without content to hash.
    pub sha256: Option<String>,
    /// Kind of the file.
    pub kind: FileKind,
}

/// Kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link; never followed.
    Symlink,
    /// A pipe, socket or device; never opened.
    Special,
}

/// Changed file that is not listed with the others, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedFile {
    /// Path in the guest as bytes, which need not be UTF-8.
    pub name: Vec<u8>,
    /// Reason that the file was skipped, in one line.
    pub reason: String,
}

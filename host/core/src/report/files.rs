use crate::path::{GuestPath, HostPath};

/// What a run did to the files of its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileChanges {
    /// Files that were not there before.
    pub created: Vec<OutFile>,
    /// Files that were, and whose content changed.
    pub modified: Vec<OutFile>,
    /// Files that were, and are no longer.
    pub deleted: Vec<OutFile>,
    /// Changes that could not be listed like the rest.
    pub skipped: Vec<SkippedFile>,
    /// How many changes are not listed at all because there were too many.
    pub dropped: u64,
}

impl FileChanges {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self { created, modified, deleted, skipped, dropped } = self;
        let listed = [created, modified, deleted].into_iter().all(Vec::is_empty);
        listed && skipped.is_empty() && *dropped == 0
    }
}

/// A file that a run changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFile {
    /// Where the guest has it.
    pub guest: GuestPath,
    /// Where the host has it, if it does.
    pub host: Option<HostPath>,
    /// Its size in bytes; for a deleted file, what it was if known, else 0.
    pub size: u64,
    /// The SHA-256 of its content in lower-case hexadecimal; `None` for what has no content to hash.
    pub sha256: Option<String>,
    /// What it is.
    pub kind: FileKind,
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A changed file that is not among the others, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Its path inside the guest as bytes, which need not be UTF-8.
    pub name: Vec<u8>,
    /// Why it was skipped, in one line.
    pub reason: String,
}

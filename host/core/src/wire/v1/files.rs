use serde::{Deserialize, Serialize};

use super::outcome::words;
use crate::report::{self, JsonBytes};

/// Changes of a run to the files of its working directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FileChanges {
    /// Files that did not exist before.
    pub created: Vec<OutFile>,
    /// Files whose content changed.
    pub modified: Vec<OutFile>,
    /// Files that no longer exist.
    pub deleted: Vec<OutFile>,
    /// Changes that could not be listed with the others.
    pub skipped: Vec<SkippedFile>,
    /// Number of changes that are not listed because there were too many.
    pub dropped: u64,
}

/// File that a run changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OutFile {
    /// Path in the guest.
    pub guest_path: String,
    /// Path on the host, if the file is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content in lower-case hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Kind of the file.
    pub kind: FileKind,
}

words! {
    /// Kind of a file.
    #[serde(rename_all = "snake_case")]
    FileKind of report::FileKind {
        /// A regular file.
        Regular,
        /// A directory.
        Directory,
        /// A symbolic link.
        Symlink,
        /// A pipe, socket or device.
        Special,
    }
}

/// Changed file that is not listed with the others, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SkippedFile {
    /// Path in the guest; lossy if `name_base64` is present.
    pub name: String,
    /// Bytes of the path, if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_base64: Option<String>,
    /// Reason that the file was skipped.
    pub reason: String,
}

impl From<&report::FileChanges> for FileChanges {
    fn from(changes: &report::FileChanges) -> Self {
        let report::FileChanges { created, modified, deleted, skipped, dropped } = changes;
        let files = |files: &[report::OutFile]| files.iter().map(OutFile::from).collect();
        Self {
            created: files(created),
            modified: files(modified),
            deleted: files(deleted),
            skipped: skipped.iter().map(SkippedFile::from).collect(),
            dropped: *dropped,
        }
    }
}

impl From<&report::OutFile> for OutFile {
    fn from(file: &report::OutFile) -> Self {
        let report::OutFile { guest, host, size, sha256, kind } = file;
        Self {
            guest_path: guest.to_string(),
            host_path: host.as_ref().map(ToString::to_string),
            size: *size,
            sha256: sha256.clone(),
            kind: (*kind).into(),
        }
    }
}

impl From<&report::SkippedFile> for SkippedFile {
    fn from(file: &report::SkippedFile) -> Self {
        let report::SkippedFile { name, reason } = file;
        let (name, name_base64) = match JsonBytes::of(name) {
            JsonBytes::Text(text) => (text, None),
            JsonBytes::Base64(base64) => (String::from_utf8_lossy(name).into_owned(), Some(base64)),
        };
        Self { name, name_base64, reason: reason.clone() }
    }
}

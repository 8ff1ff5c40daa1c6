use std::io;
use std::path::PathBuf;

use codebox_core::{BoxedError, Language, ResultKind};
use thiserror::Error;

/// Failure of a catalog operation, described in one line. [`CatalogError::fix`] contains the remedy.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// No runtime has this name.
    #[error("unknown runtime {name:?}; available: {}", known.join(", "))]
    UnknownRuntime {
        /// Requested name.
        name: String,
        /// Existing names.
        known: Vec<String>,
    },
    /// No image has this name.
    #[error("unknown image {name:?}; available: {}", known.join(", "))]
    UnknownImage {
        /// Requested name.
        name: String,
        /// Existing names.
        known: Vec<String>,
    },
    /// The name is not allowed for an image.
    #[error("invalid image name {name:?}: {rule}")]
    BadName {
        /// Requested name.
        name: String,
        /// Rule that the name breaks.
        rule: String,
    },
    /// The name belongs to a built-in image, which the user can neither replace nor remove.
    #[error("image {name} is built into its runtime")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A module could not be imported into an image.
    #[error("cannot import {module} into image {image}: {detail}")]
    ImportFailed {
        /// The image.
        image: String,
        /// The module.
        module: String,
        /// Python's error message, in one line.
        detail: String,
    },
    /// A language with a built-in runtime cannot be added.
    #[error("cannot add a runtime for {language}: codebox includes one")]
    NotToAdd {
        /// The language.
        language: Language,
    },
    /// An added runtime cannot use this file extension.
    #[error("cannot use file extension {ending:?}: {rule}")]
    BadEnding {
        /// File extension, without the dot.
        ending: String,
        /// Rule that the extension breaks.
        rule: String,
    },
    /// The description of a language is malformed.
    #[error("cannot use {}: {reason}", file.display())]
    BadDescription {
        /// The file.
        file: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The file is not a usable runtime.
    #[error("cannot add {}: {reason}", file.display())]
    NoRuntime {
        /// The file.
        file: PathBuf,
        /// Reason, such as a missing export or an import that is not allowed.
        reason: String,
    },
    /// The runtime was added from a user's file and cannot be downloaded.
    #[error("runtime {name} was added from a file and cannot be downloaded")]
    Added {
        /// The runtime.
        name: String,
    },
    /// The runtime is part of the installation of codebox and cannot be removed alone.
    #[error("runtime {name} in {} is part of codebox and cannot be removed alone", dir.display())]
    Installed {
        /// The runtime.
        name: String,
        /// The runtime's directory.
        dir: PathBuf,
    },
    /// A package could not be downloaded.
    #[error("cannot download {what}: {source}")]
    Fetch {
        /// The package.
        what: String,
        /// Cause of the failure.
        source: BoxedError,
    },
    /// The digest of a package or file is not the pinned one.
    #[error("hash mismatch for {what}: expected sha256 {expected}, found {found}")]
    WrongDigest {
        /// The package or file.
        what: String,
        /// The pinned digest.
        expected: String,
        /// Digest that was found.
        found: String,
    },
    /// A package cannot be used.
    #[error("cannot use {what}: {detail}")]
    BadPackage {
        /// The package or file.
        what: String,
        /// Description of the defect.
        detail: String,
        /// Error that revealed the defect.
        #[source]
        source: Option<BoxedError>,
    },
    /// This version of codebox cannot patch the runtime's module.
    #[error("cannot prepare {runtime}: {detail}")]
    Patch {
        /// The runtime.
        runtime: String,
        /// Function, and its expected and actual content.
        detail: String,
    },
    /// An installed runtime is damaged.
    #[error("{what} is damaged: {detail}")]
    Damaged {
        /// The runtime.
        what: String,
        /// Description of the damage.
        detail: String,
    },
    /// The disk is full.
    #[error("no space left to write {}", path.display())]
    Full {
        /// File that was being written.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file operation on the host failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// Operation that failed, such as "create /cache/codebox".
        action: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The WebAssembly engine failed.
    #[error("cannot {action}: {source}")]
    Engine {
        /// Operation that failed, such as "compile python".
        action: String,
        /// Error of the engine.
        source: BoxedError,
    },
    /// The operation was interrupted and left no partial state.
    #[error("interrupted while {during}")]
    Interrupted {
        /// Operation that was interrupted.
        during: String,
    },
}

impl CatalogError {
    /// Creates the error of a file operation; a full disk or an exceeded quota becomes [`Full`](Self::Full).
    #[must_use]
    pub fn io(action: impl Into<String>, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let (action, path) = (action.into(), path.into());
        if full.contains(&source.kind()) {
            return Self::Full { path, source };
        }
        let action = format!("{action} {}", path.display());
        Self::Io { action, source }
    }

    /// Returns the result kind, which determines the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::UnknownRuntime { .. }
            | Self::UnknownImage { .. }
            | Self::BadName { .. }
            | Self::NameTaken { .. }
            | Self::NotToAdd { .. }
            | Self::BadEnding { .. }
            | Self::BadDescription { .. }
            | Self::NoRuntime { .. }
            | Self::Added { .. }
            | Self::Installed { .. }
            | Self::ImportFailed { .. } => ResultKind::InvalidRequest,
            Self::Fetch { .. } => ResultKind::EngineUnavailable,
            Self::WrongDigest { .. } | Self::BadPackage { .. } | Self::Patch { .. } | Self::Damaged { .. } => {
                ResultKind::ImageError
            }
            Self::Full { .. } => ResultKind::Busy,
            Self::Io { .. } | Self::Engine { .. } => ResultKind::InternalError,
            Self::Interrupted { .. } => ResultKind::Interrupted,
        }
    }

    /// Returns the remedy, in one line.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::UnknownRuntime { .. } => "see codebox runtime list".to_owned(),
            Self::UnknownImage { .. } => "see codebox image list".to_owned(),
            Self::BadName { .. } | Self::NameTaken { .. } => "choose another name".to_owned(),
            Self::NotToAdd { .. } => "pass another name with --lang".to_owned(),
            Self::BadEnding { .. } => {
                "choose another extension with --ext, or omit --ext and run programs with --lang".to_owned()
            }
            Self::BadDescription { .. } => "correct the file; docs/runtimes.md has an example".to_owned(),
            Self::NoRuntime { .. } => {
                "pass a component that exports the world codebox:guest/runtime; docs/runtimes.md shows how".to_owned()
            }
            Self::Installed { .. } => "uninstall codebox to remove it".to_owned(),
            Self::Added { name } => format!("add it again: codebox runtime add FILE --lang {name}"),
            Self::ImportFailed { .. } => {
                "check the module's name; only modules of the runtime can be imported".to_owned()
            }
            Self::Fetch { .. } => "check the network and the package index settings, or install the \
                package from a file: codebox runtime install --from FILE"
                .to_owned(),
            Self::WrongDigest { .. } | Self::BadPackage { .. } => {
                "download the package again from a trusted source, and pass its path".to_owned()
            }
            Self::Patch { runtime, .. } => {
                format!("install it again: codebox runtime install {runtime}; if that does not help, update codebox")
            }
            Self::Damaged { what, .. } => format!("install it again: codebox runtime install {what}"),
            Self::Full { .. } => "free some space, or set CODEBOX_HOME to a directory on another disk".to_owned(),
            Self::Io { .. } => "check the directory's permissions, or set CODEBOX_HOME to another directory".to_owned(),
            Self::Engine { .. } => "see codebox doctor".to_owned(),
            Self::Interrupted { .. } => "run it again".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_full_disk() {
        let full = CatalogError::io("write", "/x/y", io::ErrorKind::StorageFull.into());
        assert_eq!(full.kind(), ResultKind::Busy);
        assert_eq!(full.to_string(), "no space left to write /x/y");
        let other = CatalogError::io("write", "/x/y", io::ErrorKind::PermissionDenied.into());
        assert_eq!(other.to_string(), "cannot write /x/y: permission denied");
    }
}

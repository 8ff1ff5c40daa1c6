use std::io;
use std::path::PathBuf;

use codebox_core::{BoxedError, Language, ResultKind};
use thiserror::Error;

/// Why the catalog could not do what was asked. One line each; [`CatalogError::fix`] says what to do.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// No runtime has this name.
    #[error("no runtime is named {name:?}; there is {}", known.join(", "))]
    UnknownRuntime {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// No image has this name.
    #[error("no image is named {name:?}; there is {}", known.join(", "))]
    UnknownImage {
        /// The name asked for.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The name cannot be an image's.
    #[error("cannot name an image {name:?}: {rule}")]
    BadName {
        /// The name asked for.
        name: String,
        /// The rule it breaks.
        rule: String,
    },
    /// The name is a built-in image's, which the user can neither replace nor remove.
    #[error("image {name} comes with its runtime")]
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
        /// What Python said, in one line.
        detail: String,
    },
    /// A language that codebox runs itself cannot be added.
    #[error("cannot add a runtime for {language}: codebox has one")]
    NotToAdd {
        /// The language.
        language: Language,
    },
    /// Files with this ending cannot be an added runtime's.
    #[error("cannot take the ending {ending:?}: {rule}")]
    BadEnding {
        /// The ending.
        ending: String,
        /// The rule it breaks.
        rule: String,
    },
    /// A file is no runtime.
    #[error("cannot add {}: {reason}", file.display())]
    NoRuntime {
        /// The file.
        file: PathBuf,
        /// What it lacks, or wants too much.
        reason: String,
    },
    /// A runtime comes from a file of the user's, and from nowhere else.
    #[error("the runtime {name} was added from a file, and cannot be fetched")]
    Added {
        /// The runtime.
        name: String,
    },
    /// A package did not come.
    #[error("cannot fetch {what}: {source}")]
    Fetch {
        /// The package.
        what: String,
        /// What went wrong.
        source: BoxedError,
    },
    /// A package or file is not the one that was pinned.
    #[error("{what} is not the pinned one: sha256 is {found}, not {expected}")]
    WrongDigest {
        /// The package or file.
        what: String,
        /// The pinned digest.
        expected: String,
        /// The digest it has.
        found: String,
    },
    /// A package cannot be used.
    #[error("cannot use {what}: {detail}")]
    BadPackage {
        /// The package or file.
        what: String,
        /// What is wrong with it.
        detail: String,
        /// What showed it.
        #[source]
        source: Option<BoxedError>,
    },
    /// A runtime's module is not one that this version of codebox can change as it has to.
    #[error("cannot prepare {runtime}: {detail}")]
    Patch {
        /// The runtime.
        runtime: String,
        /// The function, and what was expected and found in it.
        detail: String,
    },
    /// What is installed is damaged.
    #[error("{what} is damaged: {detail}")]
    Damaged {
        /// The runtime.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The disk is full.
    #[error("no space left to write {}", path.display())]
    Full {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The host's files failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried: "create /cache/codebox".
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// The engine failed.
    #[error("cannot {action}: {source}")]
    Engine {
        /// What was tried: "compile python".
        action: String,
        /// What the engine said.
        source: BoxedError,
    },
    /// It was stopped from outside. Nothing is left half-done.
    #[error("interrupted while {during}")]
    Interrupted {
        /// What was going on.
        during: String,
    },
}

impl CatalogError {
    /// The failure of a file operation, which a full disk makes its own kind.
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

    /// The one word for it, which also decides the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::UnknownRuntime { .. }
            | Self::UnknownImage { .. }
            | Self::BadName { .. }
            | Self::NameTaken { .. }
            | Self::NotToAdd { .. }
            | Self::BadEnding { .. }
            | Self::NoRuntime { .. }
            | Self::Added { .. }
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

    /// What to do, in one line.
    #[must_use]
    pub fn fix(&self) -> String {
        match self {
            Self::UnknownRuntime { .. } => "see codebox runtime list".to_owned(),
            Self::UnknownImage { .. } => "see codebox image list".to_owned(),
            Self::BadName { .. } | Self::NameTaken { .. } => "choose another name".to_owned(),
            Self::NotToAdd { .. } => "give another name with --lang".to_owned(),
            Self::BadEnding { .. } => "choose another with --ext, or leave it out and name the language".to_owned(),
            Self::NoRuntime { .. } => {
                "give a component that exports the world codebox:guest/runtime; docs/runtimes.md shows how".to_owned()
            }
            Self::Added { name } => format!("add it again: codebox runtime add FILE --lang {name}"),
            Self::ImportFailed { .. } => {
                "check the module's name; only what the runtime holds can be imported".to_owned()
            }
            Self::Fetch { .. } => "check the network and the package index settings, or bring the \
                package as a file: codebox runtime install --from FILE"
                .to_owned(),
            Self::WrongDigest { .. } | Self::BadPackage { .. } => {
                "get the package again from a source you trust, and give its file's path".to_owned()
            }
            Self::Patch { runtime, .. } => {
                format!("install it again: codebox runtime install {runtime}; if that does not help, update codebox")
            }
            Self::Damaged { what, .. } => format!("install it again: codebox runtime install {what}"),
            Self::Full { .. } => "free some space, or set CODEBOX_HOME to a folder on another disk".to_owned(),
            Self::Io { .. } => "check the folder's permissions, or set CODEBOX_HOME to another".to_owned(),
            Self::Engine { .. } => "see codebox doctor".to_owned(),
            Self::Interrupted { .. } => "run it again".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = CatalogError::io("write", "/x/y", io::ErrorKind::StorageFull.into());
        assert_eq!(full.kind(), ResultKind::Busy);
        assert_eq!(full.to_string(), "no space left to write /x/y");
        let other = CatalogError::io("write", "/x/y", io::ErrorKind::PermissionDenied.into());
        assert_eq!(other.to_string(), "cannot write /x/y: permission denied");
    }
}

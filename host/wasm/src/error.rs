//! What can go wrong before or around a guest; what a guest does is never an error.

use std::io;
use std::path::{Path, PathBuf};

use codebox_files::FilesError;

/// A failure of the fast path that says nothing about the guest's program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The wasm engine refused an operation.
    #[error("cannot {doing}")]
    Engine {
        /// What was being done, as a verb phrase.
        doing: &'static str,
        /// The engine's own error.
        #[source]
        source: wasmtime::Error,
    },
    /// A file or directory operation failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// The path it was done to.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A module is not one that codebox can run as a reactor.
    #[error("{path} is not a usable runtime module: {reason}")]
    Module {
        /// The module's file.
        path: PathBuf,
        /// What it lacks or has too much of.
        reason: String,
    },
    /// A patch of `runtime.toml` cannot be applied to the runtime's module.
    #[error("the patch {patch} does not fit {path}: {reason}")]
    Patch {
        /// The patch's name.
        patch: String,
        /// The module's file.
        path: PathBuf,
        /// The function and what was expected and found in it.
        reason: String,
    },
    /// A stored artefact is missing, cut short, changed or made by another version.
    #[error("{path}: {reason}")]
    Damaged {
        /// The artefact's file.
        path: PathBuf,
        /// What does not match.
        reason: String,
    },
    /// A memory mapping could not be made or changed.
    #[error("cannot {doing} {bytes} bytes of memory")]
    Memory {
        /// What was being done, as a verb.
        doing: &'static str,
        /// How many bytes it was done to.
        bytes: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The guest's prelude broke its side of the contract while an image was made.
    #[error("the runtime's start-up code failed: {0}")]
    Prelude(String),
    /// A limit cannot be held for this job.
    #[error("{0}")]
    Limit(String),
}

impl WasmError {
    pub(crate) fn engine(doing: &'static str) -> impl FnOnce(wasmtime::Error) -> Self {
        move |source| Self::Engine { doing, source }
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}

impl From<FilesError> for WasmError {
    fn from(error: FilesError) -> Self {
        match error {
            FilesError::Io { doing, path, source } => Self::Io { doing, path, source },
        }
    }
}

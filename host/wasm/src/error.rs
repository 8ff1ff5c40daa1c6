//! Failures before or around a guest's run. The outcome of the guest's own program is never an error.

use std::io;
use std::path::{Path, PathBuf};

use codebox_core::ByteSize;
use codebox_files::FilesError;

/// A failure of the wasm backend, independent of the guest's program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WasmError {
    /// The wasm engine refused an operation.
    #[error("cannot {doing}")]
    Engine {
        /// The failed operation, as a verb phrase.
        doing: &'static str,
        /// The engine's own error.
        #[source]
        source: wasmtime::Error,
    },
    /// A file or directory operation failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// The failed operation, as a verb.
        doing: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A module cannot be run as a reactor by codebox.
    #[error("{path} is not a usable runtime module: {reason}")]
    Module {
        /// The module's file.
        path: PathBuf,
        /// The missing or unsupported part of the module.
        reason: String,
    },
    /// A patch of `runtime.toml` cannot be applied to the runtime's module.
    #[error("cannot apply patch {patch} to {path}: {reason}")]
    Patch {
        /// The patch's name.
        patch: String,
        /// The module's file.
        path: PathBuf,
        /// The function, with the expected and the actual contents.
        reason: String,
    },
    /// A stored artefact is missing, truncated, changed or made by another version.
    #[error("{path}: {reason}")]
    Damaged {
        /// The artefact's file.
        path: PathBuf,
        /// The mismatch that was found.
        reason: String,
    },
    /// A memory mapping could not be created or changed.
    #[error("cannot {doing} {bytes} bytes of memory")]
    Memory {
        /// The failed operation, as a verb.
        doing: &'static str,
        /// The size of the operation in bytes.
        bytes: usize,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The guest's prelude violated the contract while an image was made.
    #[error("the runtime's start-up code failed: {0}")]
    Prelude(String),
    /// A guest from which an image was made needs code that is not compiled yet.
    #[error("an image needs code that is not compiled yet")]
    NotCompiled,
    /// A part of the job is invalid for this tier.
    #[error("cannot use {subject}: {detail}")]
    Input {
        /// The part of the job.
        subject: String,
        /// Description of the problem.
        detail: String,
    },
    /// The guest of a session has ended between two cells.
    #[error("the guest has ended")]
    GuestLost,
    /// The memory limit is below the size of the interpreter's image.
    #[error("the memory limit is too low: the guest starts with {needed}")]
    MemoryLimit {
        /// Size of the image.
        needed: ByteSize,
    },
}

impl WasmError {
    pub(crate) fn engine(doing: &'static str) -> impl FnOnce(wasmtime::Error) -> Self {
        move |source| Self::Engine { doing, source }
    }

    /// Creates the error for the thread that interrupts guests.
    pub(crate) fn clock(source: io::Error) -> Self {
        Self::Memory { doing: "start the clock thread with", bytes: 64 << 10, source }
    }

    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn input(subject: impl ToString, detail: impl Into<String>) -> Self {
        Self::Input { subject: subject.to_string(), detail: detail.into() }
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

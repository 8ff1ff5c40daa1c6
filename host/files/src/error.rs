//! Errors of the host's file system. Content that a job left never causes one.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the host's file system.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file or directory operation failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// The failed operation, as a verb.
        doing: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl FilesError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

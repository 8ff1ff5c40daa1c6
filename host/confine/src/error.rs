//! Why confinement failed.

use std::io;
use std::path::PathBuf;

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// A granted path could not be opened; nothing was applied.
    #[error("cannot open granted place {}", path.display())]
    OpenPlace {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A granted path is a symbolic link; nothing was applied.
    #[error("granted place {} is a symbolic link", path.display())]
    SymbolicLink {
        /// The path as given.
        path: PathBuf,
    },
    /// A granted descriptor could not be examined or duplicated; nothing was applied.
    #[error("cannot use granted descriptor {descriptor}")]
    UsePlace {
        /// The descriptor's number.
        descriptor: i32,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused the file and network rules.
    #[cfg(target_os = "linux")]
    #[error("cannot apply landlock rules")]
    Landlock(#[from] landlock::RulesetError),
    /// The list of allowed system calls does not make a filter; a fault of this crate.
    #[cfg(target_os = "linux")]
    #[error("cannot build the system call filter")]
    BuildFilter(#[from] seccompiler::BackendError),
    /// The kernel refused the system call filter; so it does when the process is already confined.
    #[cfg(target_os = "linux")]
    #[error("cannot apply the system call filter")]
    ApplyFilter(#[source] seccompiler::Error),
}

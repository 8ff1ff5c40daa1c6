//! Errors of confinement.

use std::io;
use std::path::PathBuf;

/// Error of confining a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfineError {
    /// A granted path could not be opened. No restriction was applied.
    #[error("cannot open granted path {}", path.display())]
    OpenPath {
        /// The path as granted.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A granted path is a symbolic link. No restriction was applied.
    #[error("granted path {} is a symbolic link", path.display())]
    SymbolicLink {
        /// The path as granted.
        path: PathBuf,
    },
    /// A granted descriptor could not be examined or duplicated. No restriction was applied.
    #[error("cannot use granted descriptor {descriptor}")]
    UseDescriptor {
        /// The descriptor's number.
        descriptor: i32,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel refused the file and network rules.
    #[cfg(target_os = "linux")]
    #[error("cannot apply landlock rules")]
    Landlock(#[from] landlock::RulesetError),
    /// The list of allowed system calls is not a valid filter, which is a bug of this crate.
    #[cfg(target_os = "linux")]
    #[error("cannot build the system call filter")]
    BuildFilter(#[from] seccompiler::BackendError),
    /// The kernel refused the system call filter. This also happens if the process is already confined.
    #[cfg(target_os = "linux")]
    #[error("cannot apply the system call filter")]
    ApplyFilter(#[source] seccompiler::Error),
}

//! Trust in files and directories by their owner and mode.

use std::io;
use std::path::{Path, PathBuf};

/// Reason why another user could change a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UntrustedReason {
    /// The file belongs to another user.
    #[error("it is owned by user {owner}, expected {user}")]
    Owner {
        /// The owner of the file.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The mode lets the group or all users write to the file.
    #[error("it is writable by other users; run chmod go-w on it")]
    Writable,
    /// The path is a symbolic link.
    #[error("it is a symbolic link; remove it or use its target directory")]
    Link,
    /// The path is not a directory.
    #[error("it is not a directory")]
    NotADirectory,
}

/// Error for a path that another user could change.
#[derive(Debug, thiserror::Error)]
#[error("{} is not safe to use: {reason}{}", path.display(), fix(reason))]
struct UntrustedPathError {
    path: PathBuf,
    reason: UntrustedReason,
}

fn fix(reason: &UntrustedReason) -> &'static str {
    match reason {
        UntrustedReason::Owner { .. } => "; change its owner, or set CODEBOX_HOME to a directory of your own",
        _ => "",
    }
}

impl UntrustedReason {
    /// Returns the error for `path`.
    pub(crate) fn at(self, path: &Path) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, UntrustedPathError { path: path.to_owned(), reason: self })
    }
}

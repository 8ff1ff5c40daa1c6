//! Private directories, which no other user can change.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::Path;

use crate::sys::{self, set_directory_nofollow, set_private_mode};
use crate::trust::UntrustedReason;

/// Creates a directory that only this user can enter, with its parents.
///
/// An existing directory must belong to this user, must not be a link, and must not be writable by others. Other users
/// must not be able to replace it.
///
/// # Errors
/// The system's error if the path is not a directory or cannot be created; `PermissionDenied` if another user could
/// change it.
pub fn private_dir(path: &Path) -> io::Result<()> {
    if let Err(error) = check_private(path) {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let mut builder = DirBuilder::new();
        set_private_mode(builder.recursive(true));
        builder.create(path)?;
        check_private(path)?;
    }
    Ok(())
}

fn check_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    set_directory_nofollow(options.read(true));
    let dir = match options.open(path) {
        Ok(dir) => dir,
        Err(error) => {
            return Err(match fs::symlink_metadata(path) {
                Ok(meta) if meta.is_symlink() => UntrustedReason::Link.at(path),
                Ok(meta) if !meta.is_dir() => UntrustedReason::NotADirectory.at(path),
                _ => error,
            });
        }
    };
    sys::check_own(&dir.metadata()?).map_err(|reason| reason.at(path))?;
    sys::check_parents(path)
}

#[cfg(all(test, unix))]
mod tests;

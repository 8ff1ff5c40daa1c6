//! Hard links.

use std::io;

use cap_std::fs::Dir;

use crate::open::{create_new_file, open_for_reading};

/// Gives a regular file another name in another directory on the same file system, which must not exist. Copies a file that has as
/// many names as the file system allows.
///
/// # Errors
/// The system's error, or one for a name that is a link or not a regular file.
pub fn link_or_copy(from: &Dir, name: &str, to: &Dir, new_name: &str) -> io::Result<()> {
    match from.hard_link(name, to, new_name) {
        Ok(()) if to.symlink_metadata(new_name)?.is_file() => Ok(()),
        Ok(()) => {
            to.remove_file(new_name)?;
            Err(io::Error::other("it is not a regular file"))
        }
        Err(error) if error.kind() == io::ErrorKind::TooManyLinks => {
            io::copy(&mut open_for_reading(from, name)?, &mut create_new_file(to, new_name)?).map(|_| ())
        }
        Err(error) => Err(error),
    }
}

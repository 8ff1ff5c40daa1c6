//! Directories of this user alone.

use std::fs::DirBuilder;
use std::io;
use std::path::Path;

use crate::sys::build_private;

/// Makes a directory, and its parents, that only this user can enter.
///
/// # Errors
/// The system's, when something else stands there or it cannot be made.
pub fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    build_private(builder.recursive(true));
    builder.create(path)
}

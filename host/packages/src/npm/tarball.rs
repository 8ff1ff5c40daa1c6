//! Members of a package's archive into a new directory.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::native::{self, Native};
use crate::error::UnpackError;
use crate::unpack::{UnpackLimits, tarball};

/// What an archive held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Bytes of all files.
    pub(super) bytes: u64,
    pub(super) native: Option<Native>,
}

/// Unpacks an npm package's archive into the directory `into`, which must not be there; of each name the first component is
/// left out, as npm does, since nobody agrees on what it is called.
///
/// The archive is not trusted, even where its digest is right. It is refused if a member has a name that is absolute, goes
/// upwards or is not the same file to every system, occurs twice, or is anything but a file or a directory, and as soon as it
/// unpacks to more than `limits` allow. Files are made read-only; of their modes it is taken over whether their owner may run
/// them, of times nothing.
///
/// # Errors
/// See [`UnpackError`]. What is in `into` by then is of no use: unpack to where it can be removed.
pub fn unpack_tarball(limits: &UnpackLimits, what: &str, archive: impl Read, into: &Path) -> Result<(), UnpackError> {
    unpack(limits, what, archive, into).map(drop)
}

pub(super) fn unpack(limits: &UnpackLimits, what: &str, archive: impl Read, into: &Path) -> Result<Held, UnpackError> {
    let tarball::Held { bytes, names } = tarball::unpack(limits, what, archive, into)?;
    let manifest = fs::read(into.join("package.json")).map_err(|_| UnpackError::Missing("package.json".to_owned()))?;
    // Some begin with a mark; what cannot be read tells nothing.
    let manifest = manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&manifest);
    let manifest = serde_json::from_slice(manifest).unwrap_or(Value::Null);
    Ok(Held { bytes, native: native::of_files(names.iter().map(String::as_str), &manifest) })
}

//! Unpacking of a package's archive into a new directory.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use super::native::{self, Native};
use crate::error::UnpackError;
use crate::unpack::{UnpackLimits, tarball};

/// Summary of an unpacked archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnpackSummary {
    /// Total size of all files in bytes.
    pub(super) bytes: u64,
    pub(super) native: Option<Native>,
}

/// Unpacks an npm package's archive into the directory `into`, which must not exist. The first component of each name
/// is dropped, as npm does, since its name differs between archives.
///
/// The archive is not trusted, even if its digest is correct. It is refused if a member has a name that is absolute,
/// refers to a parent directory or is not the same file on every system, occurs twice, or is neither a file nor a
/// directory, and as soon as it unpacks to more than `limits` allow. Files are made read-only. Of their modes, only the
/// owner's execute permission is kept; their times are not.
///
/// # Errors
/// See [`UnpackError`]. After an error, `into` may hold a part of the archive: unpack to a directory that can be
/// removed.
pub fn unpack_tarball(limits: &UnpackLimits, what: &str, archive: impl Read, into: &Path) -> Result<(), UnpackError> {
    unpack(limits, what, archive, into).map(drop)
}

pub(super) fn unpack(
    limits: &UnpackLimits,
    what: &str,
    archive: impl Read,
    into: &Path,
) -> Result<UnpackSummary, UnpackError> {
    let tarball::UnpackSummary { bytes, names } = tarball::unpack(limits, what, archive, into)?;
    let manifest = fs::read(into.join("package.json")).map_err(|_| UnpackError::Missing("package.json".to_owned()))?;
    // Some manifests start with a byte order mark. An unreadable manifest is treated as empty.
    let manifest = manifest.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&manifest);
    let manifest = serde_json::from_slice(manifest).unwrap_or(Value::Null);
    Ok(UnpackSummary { bytes, native: native::detect_native(names.iter().map(String::as_str), &manifest) })
}

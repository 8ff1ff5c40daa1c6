//! Conversion of the files of an index to pinned files.

use std::path::Path;

use uv_distribution_types::{File, IndexUrl};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_redacted::DisplaySafeUrl;

use super::resolve_error::ResolveError;
use crate::address_policy::check_file_url;
use crate::pin::Sha256;
use crate::wheel::Wheel;

/// Converts a file of an index to a pinned file. Fails if the file has no hash.
pub(super) fn pin_file(
    name: &PackageName,
    version: &Version,
    file: &File,
    index: &IndexUrl,
) -> Result<Wheel, ResolveError> {
    let mut url = file_url(file, index)?;
    url.set_fragment(None);
    let announced = file.hashes.iter().find(|digest| digest.algorithm.to_string() == "sha256");
    let sha256 = match announced {
        Some(digest) => digest.digest.to_string(),
        // A local folder lists no hashes, so the hash is computed.
        None if url.scheme() == "file" => {
            url.to_file_path().ok().and_then(|path| local_hash(&path)).ok_or_else(|| missing_hash(file))?
        }
        None => return Err(missing_hash(file)),
    };
    sha256.parse::<Sha256>().map_err(|_| missing_hash(file))?;
    Ok(Wheel {
        name: name.to_string(),
        version: version.to_string(),
        file: file.filename.to_string(),
        url: url.without_credentials().to_string(),
        sha256,
        size: file.size,
    })
}

/// Returns the URL of an index's file.
pub(super) fn file_url(file: &File, index: &IndexUrl) -> Result<DisplaySafeUrl, ResolveError> {
    let url = file.url.to_url().map_err(|_| missing_hash(file))?;
    check_file_url(index, &url)
        .map_err(|forbidden_address| ResolveError::ForbiddenAddress(forbidden_address.into()))?;
    Ok(url)
}

/// Returns the error for a file without a hash.
pub(super) fn missing_hash(file: &File) -> ResolveError {
    ResolveError::MissingHash { file: file.filename.to_string() }
}

fn local_hash(path: &Path) -> Option<String> {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let mut file = crate::disk::open(path).ok()?;
    std::io::copy(&mut file, &mut hash).ok()?;
    Some(Sha256::from_bytes(hash.finalize().into()).to_string())
}

//! Search of the sources for the pinned file.

use std::str::FromStr;

use tokio::sync::Semaphore;
use uv_client::{FlatIndexClient, FlatIndexEntry, MetadataFormat, OwnedArchive};
use uv_distribution_filename::DistFilename;
use uv_distribution_types::{File, Index, IndexCapabilities, IndexFormat, IndexUrl};
use uv_normalize::PackageName;

use super::client::Registry;
use super::source_failure::{self, SourceFailure};
use crate::address_policy::check_file_url;
use crate::error::FetchError;
use crate::pin::{Pin, Sha256};
use crate::settings::{IndexSettings, redacted_url};

/// Kind of file to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    Wheels,
    Sdists,
}

/// A file that may be the pinned one.
pub(crate) struct Candidate {
    /// Address of the source that has the file, without credentials.
    pub(crate) index: String,
    pub(crate) file: File,
}

impl Candidate {
    pub(super) fn file_name(&self) -> String {
        self.file.filename.to_string()
    }

    /// Returns the sha256 that the source lists for the file, if any.
    fn listed_sha256(&self) -> Option<Sha256> {
        let mut digests = self.file.hashes.iter();
        let sha256 = digests.find(|digest| digest.algorithm.to_string() == "sha256")?;
        sha256.digest.parse().ok()
    }
}

/// Returns the files to try, in order. The first source that lists the pinned sha256 ends the search.
pub(super) async fn candidates(
    pin: &Pin,
    kind: FileKind,
    settings: &IndexSettings,
    registry: &Registry,
) -> Result<Vec<Candidate>, FetchError> {
    let name = PackageName::from_str(&pin.name).map_err(|_| FetchError::Name(pin.name.clone()))?;
    let mut unhashed = Vec::new();
    let mut failures = Vec::new();
    let mut other = None;
    for index in settings.search_order() {
        let files = match files(&name, kind, index, settings, registry).await {
            Ok(files) => files,
            Err(source_failure) => {
                failures.push((redacted_url(index), source_failure));
                continue;
            }
        };
        let files = files.into_iter().filter(|(named, _)| is_same_version(named.version(), &pin.version));
        for (_, file) in files {
            let forbidden_address = file.url.to_url().ok().and_then(|url| check_file_url(index.url(), &url).err());
            let index = redacted_url(index);
            if let Some(forbidden_address) = forbidden_address {
                failures.push((index, SourceFailure::InvalidResponse(forbidden_address.into())));
                continue;
            }
            let candidate = Candidate { index, file };
            match candidate.listed_sha256() {
                Some(found) if found == pin.sha256 => return Ok(vec![candidate]),
                Some(found) => other = other.or_else(|| Some(candidate.wrong_hash(pin, found))),
                None => unhashed.push(candidate),
            }
        }
    }
    if unhashed.is_empty() {
        // A source with a different file of that name is a better explanation than a source that did not answer.
        return Err(other.unwrap_or_else(|| source_failure::most_relevant_error(failures, pin, settings)));
    }
    Ok(unhashed)
}

/// Lists all files of one kind that a source has of the package.
async fn files(
    name: &PackageName,
    kind: FileKind,
    index: &Index,
    settings: &IndexSettings,
    registry: &Registry,
) -> Result<Vec<(DistFilename, File)>, SourceFailure> {
    let local = matches!(index.url(), IndexUrl::Path(_));
    if settings.connectivity.is_offline() && !local {
        return Err(SourceFailure::Offline);
    }
    if index.format == IndexFormat::Flat {
        let client = FlatIndexClient::new(registry.client.cached_client(), settings.connectivity, &registry.cache);
        let found = client.fetch_all(std::iter::once(index.url())).await;
        let (entries, _) = found.map_err(SourceFailure::from_flat)?.into_parts();
        return Ok(entries.into_iter().filter_map(|entry| matching_file(entry, name, kind)).collect());
    }
    let capabilities = IndexCapabilities::default();
    let semaphore = Semaphore::new(1);
    let found = registry.client.simple_detail(name, Some(index.into()), &capabilities, &semaphore).await;
    if capabilities.unauthorized(index.url()) || capabilities.forbidden(index.url()) {
        return Err(SourceFailure::Denied);
    }
    let mut files = Vec::new();
    for (_, page) in found.map_err(SourceFailure::from_client)? {
        match page {
            MetadataFormat::Simple(page) => {
                for version in OwnedArchive::deserialize(&page) {
                    files.extend(version.files.all(name).filter(|(named, _)| is_of_kind(named, kind)));
                }
            }
            MetadataFormat::Flat(entries) => {
                files.extend(entries.into_iter().filter_map(|entry| matching_file(entry, name, kind)));
            }
        }
    }
    Ok(files)
}

fn matching_file(entry: FlatIndexEntry, name: &PackageName, kind: FileKind) -> Option<(DistFilename, File)> {
    let (named, file, _) = entry.into_parts();
    (is_of_kind(&named, kind) && named.name() == name).then_some((named, file))
}

fn is_of_kind(named: &DistFilename, kind: FileKind) -> bool {
    match named {
        DistFilename::WheelFilename(_) => kind == FileKind::Wheels,
        DistFilename::SourceDistFilename(_) => kind == FileKind::Sdists,
    }
}

/// Returns true if a text denotes this version, in any spelling: `1.0` and `1.0.0` are equal.
fn is_same_version<V: FromStr + PartialEq>(version: &V, text: &str) -> bool {
    text.parse::<V>().is_ok_and(|parsed| parsed == *version)
}

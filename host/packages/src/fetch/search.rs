//! Search of the sources for the pinned file.

use std::str::FromStr;

use tokio::sync::Semaphore;
use uv_client::{FlatIndexClient, FlatIndexEntry, MetadataFormat, OwnedArchive};
use uv_distribution_filename::DistFilename;
use uv_distribution_types::{File, Index, IndexCapabilities, IndexFormat, IndexUrl};
use uv_normalize::PackageName;

use super::client::Registry;
use super::refusal::{self, Refusal};
use crate::error::FetchError;
use crate::pin::{Pin, Sha256};
use crate::reach::may_have;
use crate::settings::{IndexSettings, address};

/// Kind of file to search for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sought {
    Wheels,
    Sources,
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
    fn announced(&self) -> Option<Sha256> {
        let mut digests = self.file.hashes.iter();
        let sha256 = digests.find(|digest| digest.algorithm.to_string() == "sha256")?;
        sha256.digest.parse().ok()
    }
}

/// Returns the files to try, in order. The first source that lists the pinned sha256 ends the search.
pub(super) async fn candidates(
    (pin, sought): (&Pin, Sought),
    settings: &IndexSettings,
    registry: &Registry,
) -> Result<Vec<Candidate>, FetchError> {
    let name = PackageName::from_str(&pin.name).map_err(|_| FetchError::Name(pin.name.clone()))?;
    let mut silent = Vec::new();
    let mut refusals = Vec::new();
    let mut other = None;
    for index in settings.in_order() {
        let files = match files((&name, sought), index, settings, registry).await {
            Ok(files) => files,
            Err(refusal) => {
                refusals.push((address(index), refusal));
                continue;
            }
        };
        let files = files.into_iter().filter(|(named, _)| same(named.version(), &pin.version));
        for (_, file) in files {
            let astray = file.url.to_url().ok().and_then(|url| may_have(index.url(), &url).err());
            let index = address(index);
            if let Some(astray) = astray {
                refusals.push((index, Refusal::Answer(astray.into())));
                continue;
            }
            let candidate = Candidate { index, file };
            match candidate.announced() {
                Some(found) if found == pin.sha256 => return Ok(vec![candidate]),
                Some(found) => other = other.or_else(|| Some(candidate.wrong_hash(pin, found))),
                None => silent.push(candidate),
            }
        }
    }
    if silent.is_empty() {
        // A source with a different file of that name is a better explanation than a source that did not answer.
        return Err(other.unwrap_or_else(|| refusal::most_telling(refusals, pin, settings)));
    }
    Ok(silent)
}

/// Lists all files of one kind that a source has of the package.
async fn files(
    (name, sought): (&PackageName, Sought),
    index: &Index,
    settings: &IndexSettings,
    registry: &Registry,
) -> Result<Vec<(DistFilename, File)>, Refusal> {
    let local = matches!(index.url(), IndexUrl::Path(_));
    if settings.connectivity.is_offline() && !local {
        return Err(Refusal::Offline);
    }
    if index.format == IndexFormat::Flat {
        let client = FlatIndexClient::new(registry.client.cached_client(), settings.connectivity, &registry.cache);
        let found = client.fetch_all(std::iter::once(index.url())).await;
        let (entries, _) = found.map_err(Refusal::from_flat)?.into_parts();
        return Ok(entries.into_iter().filter_map(|entry| listed(entry, (name, sought))).collect());
    }
    let abilities = IndexCapabilities::default();
    let turns = Semaphore::new(1);
    let found = registry.client.simple_detail(name, Some(index.into()), &abilities, &turns).await;
    if abilities.unauthorized(index.url()) || abilities.forbidden(index.url()) {
        return Err(Refusal::Denied);
    }
    let mut files = Vec::new();
    for (_, page) in found.map_err(Refusal::from_client)? {
        match page {
            MetadataFormat::Simple(page) => {
                for version in OwnedArchive::deserialize(&page) {
                    files.extend(version.files.all(name).filter(|(named, _)| is_sought(named, sought)));
                }
            }
            MetadataFormat::Flat(entries) => {
                files.extend(entries.into_iter().filter_map(|entry| listed(entry, (name, sought))));
            }
        }
    }
    Ok(files)
}

fn listed(entry: FlatIndexEntry, (name, sought): (&PackageName, Sought)) -> Option<(DistFilename, File)> {
    let (named, file, _) = entry.into_parts();
    (is_sought(&named, sought) && named.name() == name).then_some((named, file))
}

fn is_sought(named: &DistFilename, sought: Sought) -> bool {
    match named {
        DistFilename::WheelFilename(_) => sought == Sought::Wheels,
        DistFilename::SourceDistFilename(_) => sought == Sought::Sources,
    }
}

/// Returns true if a text denotes this version, in any spelling: `1.0` and `1.0.0` are equal.
fn same<V: FromStr + PartialEq>(version: &V, text: &str) -> bool {
    text.parse::<V>().is_ok_and(|read| read == *version)
}

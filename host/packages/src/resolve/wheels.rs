//! Metadata read from wheels, for indexes that do not serve it separately.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};
use tokio::sync::Semaphore;
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use uv_distribution::ArchiveMetadata;
use uv_distribution_types::{Dist, IndexCapabilities, RegistryBuiltWheel};
use uv_pypi_types::ResolutionMetadata;
use uv_redacted::DisplaySafeUrl;
use uv_resolver::MetadataResponse;

use super::sources::Asker;
use super::{ResolveError, Wheel, pinned, served, unlocked};
use crate::fetch::{Tangled, in_parts};
use crate::house::{House, HouseError};
use crate::{condition, metadata};
use codebox_core::Silent;

/// Directory for the METADATA of wheels in the index cache.
const KEPT: &str = "codebox-metadata-v1";

/// Name prefix of the temporary directories for whole wheels in the index cache.
pub(crate) const WHOLE: &str = ".whole-";

/// Maximum number of wheels that are read at once, in parts and as a whole: each takes memory or disk space before its
/// content is verified.
const AT_ONCE: (usize, usize) = (8, 2);

/// Limits on concurrent reads of wheels, and the indexes without range requests.
pub(super) struct Looks {
    parts: Semaphore,
    wholes: Semaphore,
    capabilities: IndexCapabilities,
}

impl Looks {
    /// Creates the limits. Indexes that turn out not to support range requests are recorded in `capabilities`.
    pub(super) fn new(capabilities: IndexCapabilities) -> Self {
        let (parts, wholes) = AT_ONCE;
        Self { parts: Semaphore::new(parts), wholes: Semaphore::new(wholes), capabilities }
    }
}

impl Asker<'_> {
    /// Returns the metadata of a wheel, or `None` if it is not cached and network access is disabled.
    pub(super) async fn metadata_of_wheel(&self, dist: &Dist, wheel: &RegistryBuiltWheel) -> Option<MetadataResponse> {
        match self.said_by(wheel).await {
            Ok(Some(metadata)) => Some(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Ok(None) => None,
            Err(trouble) => Some(self.troubled(dist, (&wheel.filename.name, &wheel.filename.version), trouble)),
        }
    }

    async fn said_by(&self, wheel: &RegistryBuiltWheel) -> Result<Option<ResolutionMetadata>, ResolveError> {
        let url = served(&wheel.file, &wheel.index)?;
        if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| unlocked(&wheel.file))?;
            return read(wheel, metadata::in_file(&path).as_deref()).map(Some);
        }
        let pin = pinned((&wheel.filename.name, &wheel.filename.version), &wheel.file, &wheel.index);
        let kept = pin.as_ref().ok().map(|pin| self.place_of(&pin.url, &pin.sha256));
        // An unusable cache entry, for example after a power failure, is replaced.
        if let Some(said) = kept.as_deref().and_then(kept_at).and_then(|text| read(wheel, Some(&text)).ok()) {
            return Ok(Some(said));
        }
        if self.index.settings.connectivity.is_offline() {
            return Ok(None);
        }
        let text = match self.part_of(&url, wheel).await {
            Some(text) => Some(text),
            None => self.whole_of(&pin?).await?,
        };
        let said = read(wheel, text.as_deref())?;
        if let (Some(place), Some(text)) = (kept, text) {
            // If the write fails, the METADATA is fetched again the next time.
            let _ = keep_at(&place, &text);
        }
        Ok(Some(said))
    }

    /// Reads the METADATA as a part of the file, if the server supports range requests.
    async fn part_of(&self, url: &DisplaySafeUrl, wheel: &RegistryBuiltWheel) -> Option<Vec<u8>> {
        let _turn = self.looks.parts.acquire().await.ok()?;
        let capabilities = &self.looks.capabilities;
        if !capabilities.supports_range_requests(&wheel.index) {
            return None;
        }
        let Some(parts) = in_parts(url, &self.index.registry).await else {
            capabilities.set_no_range_requests(wheel.index.clone());
            return None;
        };
        let length = parts.len();
        metadata::elsewhere(parts.compat(), length).await
    }

    /// Downloads the whole file, verifies its hash and reads the METADATA.
    async fn whole_of(&self, pin: &Wheel) -> Result<Option<Vec<u8>>, ResolveError> {
        let _turn = self.looks.wholes.acquire().await;
        let root = self.index.registry.cache.root();
        let dir = TempDir::with_prefix_in(WHOLE, root).map_err(HouseError::io("use", root)).map_err(unusable)?;
        let whole = dir.path().join("wheel");
        self.index.bring(pin, &whole, &Silent).await.map_err(|error| unusable(error.into()))?;
        Ok(metadata::in_file(&whole))
    }

    /// Returns the path of a cached METADATA. The key includes the URL, since a part of a file is not verified by the
    /// hash.
    fn place_of(&self, url: &str, sha256: &str) -> PathBuf {
        self.index.registry.cache.root().join(KEPT).join(House::key(&(url, sha256)))
    }
}

/// Parses the METADATA of a wheel, and checks that it belongs to the wheel.
fn read(wheel: &RegistryBuiltWheel, text: Option<&[u8]>) -> Result<ResolutionMetadata, ResolveError> {
    let unsound = |reason: String| {
        let wheel = wheel.file.filename.to_string();
        unusable(HouseError::Wheel { wheel, reason })
    };
    let text = text.ok_or_else(|| unsound("its METADATA is missing".to_owned()))?;
    if text.len() as u64 > metadata::LARGEST || !condition::are_plain(text) {
        let file = wheel.file.filename.to_string();
        return Err(ResolveError::Tangled(Tangled { file }.into()));
    }
    let said = ResolutionMetadata::parse_metadata(text).map_err(|error| unsound(error.to_string()))?;
    if said.name != wheel.filename.name {
        return Err(unsound(format!("its metadata is for package {}", said.name)));
    }
    if said.version != wheel.filename.version {
        return Err(unsound(format!("its metadata is for version {}", said.version)));
    }
    Ok(said)
}

fn unusable(error: HouseError) -> ResolveError {
    ResolveError::File(Box::new(error))
}

fn kept_at(place: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(place).ok()?.take(metadata::LARGEST + 1).read_to_end(&mut text).ok()?;
    Some(text)
}

fn keep_at(place: &Path, text: &[u8]) -> std::io::Result<()> {
    let dir = place.parent().unwrap_or(place);
    fs::create_dir_all(dir)?;
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(text)?;
    file.persist(place)?;
    Ok(())
}

//! Metadata read from wheels, for indexes that do not serve it separately.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir};
use tokio_util::compat::TokioAsyncReadCompatExt as _;
use uv_distribution::ArchiveMetadata;
use uv_distribution_types::{Dist, RegistryBuiltWheel};
use uv_pypi_types::ResolutionMetadata;
use uv_redacted::DisplaySafeUrl;
use uv_resolver::MetadataResponse;

use super::pinning::{file_url, missing_hash, pin_file};
use super::resolve_error::ResolveError;
use super::sources::MetadataProvider;
use crate::fetch::{MetadataTooComplex, open_ranged};
use crate::index::WHEEL_DIR_PREFIX;
use crate::package_store::{PackageStore, StoreError};
use crate::wheel::Wheel;
use crate::{complexity, metadata};
use codebox_core::Silent;

/// Directory for the METADATA of wheels in the index cache.
const METADATA_DIR: &str = "codebox-metadata-v1";

impl MetadataProvider<'_> {
    /// Returns the metadata of a wheel, or `None` if it is not cached and network access is disabled.
    pub(super) async fn metadata_of_wheel(&self, dist: &Dist, wheel: &RegistryBuiltWheel) -> Option<MetadataResponse> {
        match self.wheel_metadata(wheel).await {
            Ok(Some(metadata)) => Some(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Ok(None) => None,
            Err(metadata_error) => {
                Some(self.record_error(dist, &wheel.filename.name, &wheel.filename.version, metadata_error))
            }
        }
    }

    async fn wheel_metadata(&self, wheel: &RegistryBuiltWheel) -> Result<Option<ResolutionMetadata>, ResolveError> {
        let url = file_url(&wheel.file, &wheel.index)?;
        if url.scheme() == "file" {
            let path = url.to_file_path().map_err(|()| missing_hash(&wheel.file))?;
            return parse_and_check(wheel, metadata::in_file(&path).as_deref()).map(Some);
        }
        let pin = pin_file(&wheel.filename.name, &wheel.filename.version, &wheel.file, &wheel.index);
        let cache_path = pin.as_ref().ok().map(|pin| self.cached_metadata_path(&pin.url, &pin.sha256));
        // An unusable cache entry, for example after a power failure, is replaced.
        if let Some(parsed) =
            cache_path.as_deref().and_then(read_cached).and_then(|text| parse_and_check(wheel, Some(&text)).ok())
        {
            return Ok(Some(parsed));
        }
        if self.index.settings.connectivity.is_offline() {
            return Ok(None);
        }
        let text = match self.read_ranged(&url, wheel).await {
            Some(text) => Some(text),
            None => self.read_downloaded(&pin?).await?,
        };
        let parsed = parse_and_check(wheel, text.as_deref())?;
        if let (Some(cache_path), Some(text)) = (cache_path, text) {
            // If the write fails, the METADATA is fetched again the next time.
            let _ = write_cached(&cache_path, &text);
        }
        Ok(Some(parsed))
    }

    /// Reads the METADATA as a part of the file, if the server supports range requests.
    async fn read_ranged(&self, url: &DisplaySafeUrl, wheel: &RegistryBuiltWheel) -> Option<Vec<u8>> {
        let _guard = self.read_limits.parts.acquire().await.ok()?;
        let capabilities = &self.read_limits.capabilities;
        if !capabilities.supports_range_requests(&wheel.index) {
            return None;
        }
        let Some(parts) = open_ranged(url, &self.index.registry).await else {
            capabilities.set_no_range_requests(wheel.index.clone());
            return None;
        };
        let length = parts.len();
        metadata::in_remote_file(parts.compat(), length).await
    }

    /// Downloads the whole file, verifies its hash and reads the METADATA.
    async fn read_downloaded(&self, pin: &Wheel) -> Result<Option<Vec<u8>>, ResolveError> {
        let _guard = self.read_limits.downloads.acquire().await;
        let root = self.index.registry.cache.root();
        let dir =
            TempDir::with_prefix_in(WHEEL_DIR_PREFIX, root).map_err(StoreError::io("use", root)).map_err(file_error)?;
        let wheel_file = dir.path().join("wheel");
        self.index.download(pin, &wheel_file, &Silent).await.map_err(|error| file_error(error.into()))?;
        Ok(metadata::in_file(&wheel_file))
    }

    /// Returns the path of a cached METADATA. The key includes the URL, since a part of a file is not verified by the
    /// hash.
    fn cached_metadata_path(&self, url: &str, sha256: &str) -> PathBuf {
        self.index.registry.cache.root().join(METADATA_DIR).join(PackageStore::key(&(url, sha256)))
    }
}

/// Parses the METADATA of a wheel, and checks that it belongs to the wheel.
fn parse_and_check(wheel: &RegistryBuiltWheel, text: Option<&[u8]>) -> Result<ResolutionMetadata, ResolveError> {
    let unsound = |reason: String| {
        let wheel = wheel.file.filename.to_string();
        file_error(StoreError::Wheel { wheel, reason })
    };
    let text = text.ok_or_else(|| unsound("its METADATA is missing".to_owned()))?;
    if text.len() as u64 > metadata::MAX_METADATA_SIZE || !complexity::are_allowed(text) {
        let file = wheel.file.filename.to_string();
        return Err(ResolveError::MetadataTooComplex(MetadataTooComplex { file }.into()));
    }
    let parsed = ResolutionMetadata::parse_metadata(text).map_err(|error| unsound(error.to_string()))?;
    if parsed.name != wheel.filename.name {
        return Err(unsound(format!("its metadata is for package {}", parsed.name)));
    }
    if parsed.version != wheel.filename.version {
        return Err(unsound(format!("its metadata is for version {}", parsed.version)));
    }
    Ok(parsed)
}

fn file_error(error: StoreError) -> ResolveError {
    ResolveError::File(Box::new(error))
}

fn read_cached(cache_path: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    fs::File::open(cache_path).ok()?.take(metadata::MAX_METADATA_SIZE + 1).read_to_end(&mut text).ok()?;
    Some(text)
}

fn write_cached(cache_path: &Path, text: &[u8]) -> std::io::Result<()> {
    let dir = cache_path.parent().unwrap_or(cache_path);
    fs::create_dir_all(dir)?;
    let mut file = NamedTempFile::new_in(dir)?;
    file.write_all(text)?;
    file.persist(cache_path)?;
    Ok(())
}

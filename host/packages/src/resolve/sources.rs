//! Source distributions in a resolution, with requirements from their own metadata or from the wheels built from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use uv_distribution::{ArchiveMetadata, Error};
use uv_distribution_types::{Dist, Name as _, RegistrySourceDist, RequestedDist, SourceDist};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_pypi_types::ResolutionMetadata;
use uv_resolver::{MetadataResponse, WheelMetadataResult};

use super::pinning::pin_file;
use super::read_limits::ReadLimits;
use super::resolve_error::ResolveError;
use crate::complexity;
use crate::index::Index;
use crate::package_store::{BuildImage, PackageStore, StoreError};
use crate::source::{Sdist, static_metadata};

/// Policy for source distributions of packages without wheels.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SdistPolicy<'h> {
    /// Source distributions are not used.
    Refused,
    /// Source distributions are used, since the caller builds them: in `build_image`, or in any image if `build_image` is `None`.
    Built {
        /// The store of source distributions and their wheels.
        package_store: &'h PackageStore,
        /// The image in which they are built.
        build_image: Option<&'h BuildImage>,
    },
}

impl SdistPolicy<'_> {
    /// Returns true if source distributions are used.
    #[must_use]
    pub(crate) fn allows_builds(&self) -> bool {
        matches!(self, Self::Built { .. })
    }
}

/// Metadata provider of one resolution, for distributions whose metadata no index serves.
pub(super) struct MetadataProvider<'a> {
    pub(super) index: &'a Index<'a>,
    sources: SdistPolicy<'a>,
    /// Lock for one download at a time: a task that waits for the store's lock must not block the task that holds it.
    download_lock: tokio::sync::Mutex<()>,
    /// Reasons for unavailable metadata. A reason is reported only if the resolver chooses its distribution.
    metadata_errors: Arc<MetadataErrors>,
    pub(super) read_limits: ReadLimits,
}

/// Reasons for unavailable metadata, by the name and version of the distribution.
#[derive(Default)]
pub(super) struct MetadataErrors(Mutex<BTreeMap<(String, String), ResolveError>>);

impl MetadataErrors {
    /// Removes and returns the reason that caused a resolution to fail, if it is among these.
    pub(super) fn take_cause(&self, error: &uv_resolver::ResolveError) -> Option<ResolveError> {
        match error {
            uv_resolver::ResolveError::Dependencies(error, ..) => self.take_cause(error),
            uv_resolver::ResolveError::Dist(_, dist, ..) => {
                let key = (dist.name().to_string(), dist.version()?.to_string());
                self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key)
            }
            _ => None,
        }
    }
}

impl<'a> MetadataProvider<'a> {
    pub(super) fn new(
        index: &'a Index<'a>,
        sources: SdistPolicy<'a>,
        metadata_errors: Arc<MetadataErrors>,
        read_limits: ReadLimits,
    ) -> Self {
        Self { index, sources, download_lock: tokio::sync::Mutex::default(), metadata_errors, read_limits }
    }

    /// Returns true if any version of a package has platform-specific wheels.
    pub(super) async fn is_native(&self, name: &PackageName) -> bool {
        self.index.has_native_wheels(name).await
    }

    /// Returns the metadata of a source distribution.
    pub(super) async fn metadata(&self, dist: &Dist, source: &SourceDist) -> WheelMetadataResult {
        let (SdistPolicy::Built { package_store, build_image }, SourceDist::Registry(found)) = (self.sources, source)
        else {
            return Ok(unavailable(dist));
        };
        match self.sdist_metadata(found, package_store, build_image).await {
            Ok(metadata) => Ok(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Err(metadata_error) => Ok(self.record_error(dist, &found.name, &found.version, metadata_error)),
        }
    }

    /// Records a reason and returns the response for unavailable metadata. The reason is reported only if the resolver
    /// chooses the distribution.
    pub(super) fn record_error(
        &self,
        dist: &Dist,
        name: &PackageName,
        version: &Version,
        metadata_error: ResolveError,
    ) -> MetadataResponse {
        let key = (name.to_string(), version.to_string());
        self.metadata_errors.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, metadata_error);
        unavailable(dist)
    }

    async fn sdist_metadata(
        &self,
        found: &RegistrySourceDist,
        package_store: &PackageStore,
        build_image: Option<&BuildImage>,
    ) -> Result<ResolutionMetadata, ResolveError> {
        let sdist = sdist(found)?;
        if let Some(built) = package_store.built(&sdist, build_image) {
            let text = package_store.metadata_of(&built).map_err(|error| ResolveError::File(Box::new(error)))?;
            if !complexity::are_allowed(&text) {
                let reason = "its requirements are too complex".to_owned();
                return Err(ResolveError::File(Box::new(StoreError::Wheel { wheel: built.file, reason })));
            }
            return ResolutionMetadata::parse_metadata(&text).map_err(|error| {
                let reason = format!("cannot parse its requirements: {error}");
                ResolveError::File(Box::new(StoreError::Wheel { wheel: built.file, reason }))
            });
        }
        let _guard = self.download_lock.lock().await;
        let unpacked =
            package_store.source(&sdist, self.index).await.map_err(|error| ResolveError::File(Box::new(error)))?;
        static_metadata(&unpacked.tree, &sdist).ok_or_else(|| ResolveError::BuildRequired(Box::new(sdist)))
    }
}

fn unavailable(dist: &Dist) -> MetadataResponse {
    MetadataResponse::Error(Box::new(RequestedDist::Installable(dist.clone())), Arc::new(Error::NoBuild))
}

/// Converts an index's source distribution to a pinned one. Fails if it has no hash.
pub(super) fn sdist(found: &RegistrySourceDist) -> Result<Sdist, ResolveError> {
    pin_file(&found.name, &found.version, &found.file, &found.index).map(Sdist)
}

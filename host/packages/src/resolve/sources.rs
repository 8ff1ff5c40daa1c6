//! Source distributions in a resolution, with requirements from their own metadata or from the wheels built from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use uv_distribution::{ArchiveMetadata, Error};
use uv_distribution_types::{Dist, Name as _, RegistrySourceDist, RequestedDist, SourceDist};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_pypi_types::ResolutionMetadata;
use uv_resolver::{MetadataResponse, WheelMetadataResult};

use super::wheels::Looks;
use super::{Index, ResolveError, pinned};
use crate::condition;
use crate::house::{BuildPlace, House, HouseError};
use crate::source::{Sdist, stated};

/// Policy for source distributions of packages without wheels.
#[derive(Debug, Clone, Copy)]
pub enum Sources<'h> {
    /// Source distributions are not used.
    Refused,
    /// Source distributions are used, since the caller builds them: in `place`, or in any image if `place` is `None`.
    Built {
        /// The store of source distributions and their wheels.
        house: &'h House,
        /// The image in which they are built.
        place: Option<&'h BuildPlace>,
    },
}

impl Sources<'_> {
    /// Returns true if source distributions are used.
    #[must_use]
    pub fn serve(&self) -> bool {
        matches!(self, Self::Built { .. })
    }
}

/// Metadata provider of one resolution, for distributions whose metadata no index serves.
pub(super) struct Asker<'a> {
    pub(super) index: &'a Index<'a>,
    sources: Sources<'a>,
    /// Lock for one download at a time: a task that waits for the store's lock must not block the task that holds it.
    turn: tokio::sync::Mutex<()>,
    /// Reasons for unavailable metadata. A reason is reported only if the resolver chooses its distribution.
    troubles: Arc<Troubles>,
    pub(super) looks: Looks,
}

/// Reasons for unavailable metadata, by the name and version of the distribution.
#[derive(Default)]
pub(super) struct Troubles(Mutex<BTreeMap<(String, String), ResolveError>>);

impl Troubles {
    /// Removes and returns the reason that caused a resolution to fail, if it is among these.
    pub(super) fn behind(&self, error: &uv_resolver::ResolveError) -> Option<ResolveError> {
        match error {
            uv_resolver::ResolveError::Dependencies(error, ..) => self.behind(error),
            uv_resolver::ResolveError::Dist(_, dist, ..) => {
                let key = (dist.name().to_string(), dist.version()?.to_string());
                self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key)
            }
            _ => None,
        }
    }
}

impl<'a> Asker<'a> {
    pub(super) fn new(index: &'a Index<'a>, sources: Sources<'a>, (troubles, looks): (Arc<Troubles>, Looks)) -> Self {
        Self { index, sources, turn: tokio::sync::Mutex::default(), troubles, looks }
    }

    /// Returns true if any version of a package has platform-specific wheels.
    pub(super) async fn is_native(&self, name: &PackageName) -> bool {
        self.index.has_native_wheels(name).await
    }

    /// Returns the metadata of a source distribution.
    pub(super) async fn metadata(&self, dist: &Dist, source: &SourceDist) -> WheelMetadataResult {
        let (Sources::Built { house, place }, SourceDist::Registry(found)) = (self.sources, source) else {
            return Ok(not_built(dist));
        };
        match self.told(found, house, place).await {
            Ok(metadata) => Ok(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Err(trouble) => Ok(self.troubled(dist, (&found.name, &found.version), trouble)),
        }
    }

    /// Records a reason and returns the response for unavailable metadata. The reason is reported only if the resolver
    /// chooses the distribution.
    pub(super) fn troubled(
        &self,
        dist: &Dist,
        (name, version): (&PackageName, &Version),
        trouble: ResolveError,
    ) -> MetadataResponse {
        let key = (name.to_string(), version.to_string());
        self.troubles.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, trouble);
        not_built(dist)
    }

    async fn told(
        &self,
        found: &RegistrySourceDist,
        house: &House,
        place: Option<&BuildPlace>,
    ) -> Result<ResolutionMetadata, ResolveError> {
        let sdist = sdist(found)?;
        if let Some(built) = house.built(&sdist, place) {
            let text = house.metadata_of(&built).map_err(|error| ResolveError::File(Box::new(error)))?;
            if !condition::are_plain(&text) {
                let reason = "its requirements are too complex".to_owned();
                return Err(ResolveError::File(Box::new(HouseError::Wheel { wheel: built.file, reason })));
            }
            return ResolutionMetadata::parse_metadata(&text).map_err(|error| {
                let reason = format!("cannot parse its requirements: {error}");
                ResolveError::File(Box::new(HouseError::Wheel { wheel: built.file, reason }))
            });
        }
        let _turn = self.turn.lock().await;
        let unpacked = house.source(&sdist, self.index).await.map_err(|error| ResolveError::File(Box::new(error)))?;
        stated(&unpacked.tree, &sdist).ok_or_else(|| ResolveError::Unbuilt(Box::new(sdist)))
    }
}

fn not_built(dist: &Dist) -> MetadataResponse {
    MetadataResponse::Error(Box::new(RequestedDist::Installable(dist.clone())), Arc::new(Error::NoBuild))
}

/// Converts an index's source distribution to a pinned one. Fails if it has no hash.
pub(super) fn sdist(found: &RegistrySourceDist) -> Result<Sdist, ResolveError> {
    pinned((&found.name, &found.version), &found.file, &found.index).map(Sdist)
}

//! Source distributions as the resolver sees them: what they need, as they say or as their wheels say.

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

/// Whether source distributions serve where there are no wheels.
#[derive(Debug, Clone, Copy)]
pub enum Sources<'h> {
    /// They do not.
    Refused,
    /// They do, for somebody builds them: in `place`, or, where it does not matter, anywhere.
    Built {
        /// Where they and their wheels are kept.
        house: &'h House,
        /// Where they are built.
        place: Option<&'h BuildPlace>,
    },
}

impl Sources<'_> {
    /// Whether they do.
    #[must_use]
    pub fn serve(&self) -> bool {
        matches!(self, Self::Built { .. })
    }
}

/// What is asked about distributions that no index tells of in the course of one resolution.
pub(super) struct Asker<'a> {
    pub(super) index: &'a Index<'a>,
    sources: Sources<'a>,
    /// Only one at a time is brought here: who waits for the house's lock must not be whom its holder waits for.
    turn: tokio::sync::Mutex<()>,
    /// Why some cannot be told of, by name and version; of no account unless one of them is chosen.
    troubles: Arc<Troubles>,
    pub(super) looks: Looks,
}

/// Why distributions cannot be told of.
#[derive(Default)]
pub(super) struct Troubles(Mutex<BTreeMap<(String, String), ResolveError>>);

impl Troubles {
    /// Why a resolution was given up, if it was for one of these.
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

    /// Whether a package is made for single platforms, in any of its versions.
    pub(super) async fn is_native(&self, name: &PackageName) -> bool {
        self.index.has_native_wheels(name).await
    }

    /// What a source distribution needs.
    pub(super) async fn metadata(&self, dist: &Dist, source: &SourceDist) -> WheelMetadataResult {
        let (Sources::Built { house, place }, SourceDist::Registry(found)) = (self.sources, source) else {
            return Ok(not_built(dist));
        };
        match self.told(found, house, place).await {
            Ok(metadata) => Ok(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Err(trouble) => Ok(self.troubled(dist, (&found.name, &found.version), trouble)),
        }
    }

    /// The answer about what cannot be told of. Why is of no account unless it is chosen.
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
                let reason = "what it says that it needs is too tangled".to_owned();
                return Err(ResolveError::File(Box::new(HouseError::Wheel { wheel: built.file, reason })));
            }
            return ResolutionMetadata::parse_metadata(&text).map_err(|error| {
                let reason = format!("it does not say what it needs: {error}");
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

/// A source distribution of an index as it is kept: only with its hash.
pub(super) fn sdist(found: &RegistrySourceDist) -> Result<Sdist, ResolveError> {
    pinned((&found.name, &found.version), &found.file, &found.index).map(Sdist)
}

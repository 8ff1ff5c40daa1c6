//! Index listings of a package's versions and files.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uv_client::{MetadataFormat, OwnedArchive, SimpleDetailMetadatum};
use uv_distribution_filename::DistFilename;
use uv_distribution_types::{File, IndexCapabilities};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_pep508::VersionOrUrl;

use super::{ResolveError, SdistPolicy};
use crate::index::Index;
use crate::requirement::Requirement;

/// Maximum number of packages that are examined to explain a failed resolution.
const MAX_EXPLAINED_PACKAGES: usize = 20;

impl Index<'_> {
    /// Returns the newest version that satisfies a requirement and has a wheel for this version of Python, on any
    /// platform.
    ///
    /// Returns `None` if no index lists such a version.
    ///
    /// # Errors
    /// When an index does not answer in time.
    pub(crate) async fn newest(&self, wanted: &Requirement, python: &str) -> Result<Option<String>, ResolveError> {
        let time_limit = self.time_limit();
        timeout(time_limit, self.newest_listed_version(wanted, python)).await.map_err(|_| deadline_error(time_limit))
    }

    async fn newest_listed_version(&self, wanted: &Requirement, python: &str) -> Option<String> {
        let name: PackageName = wanted.name().parse().ok()?;
        let python: Version = python.parse().ok()?;
        let wanted = match &wanted.inner().version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        };
        let mut newest: Option<Version> = None;
        for datum in self.listing(&name).await? {
            let version = &datum.version;
            if version.any_prerelease() || wanted.is_some_and(|wanted| !wanted.contains(version)) {
                continue;
            }
            if newest.as_ref().is_some_and(|newest| newest >= version) {
                continue;
            }
            let has_wheel = datum.files.all(&name).any(|(file, found)| {
                matches!(file, DistFilename::WheelFilename(_))
                    && !is_yanked(&found)
                    && found.requires_python.as_ref().is_none_or(|versions| versions.contains(&python))
            });
            if has_wheel {
                newest = Some(datum.version);
            }
        }
        newest.map(|version| version.to_string())
    }

    /// Returns true if any version of a package has platform-specific wheels.
    pub(super) async fn has_native_wheels(&self, name: &PackageName) -> bool {
        let listing = self.listing(name).await.into_iter().flatten();
        listing.flat_map(|datum| datum.files.all(name)).any(|(file, found)| {
            matches!(file, DistFilename::WheelFilename(_)) && !found.filename.ends_with("-none-any.whl")
        })
    }

    /// Adds to a [`ResolveError::NoSolution`] the involved packages that have only source distributions. Returns other
    /// errors unchanged, and any error if `sources` allows source distributions.
    pub(crate) async fn explain_no_solution(
        &self,
        error: ResolveError,
        wanted: &[Requirement],
        sources: SdistPolicy<'_>,
    ) -> ResolveError {
        if sources.allows_builds() {
            return error;
        }
        let ResolveError::NoSolution { target, reason, involved, .. } = error else { return error };
        let mut unbuilt = Vec::new();
        let search = async {
            for name in involved.iter().take(MAX_EXPLAINED_PACKAGES) {
                if self.has_sources_only(name, wanted).await {
                    unbuilt.push(name.clone());
                }
            }
        };
        // After a timeout, the packages found so far are reported.
        let _ = timeout(self.time_limit(), search).await;
        ResolveError::NoSolution { target, reason, involved, unbuilt }
    }

    /// Returns true if a package has source distributions but no wheel among the versions that satisfy the
    /// requirements.
    async fn has_sources_only(&self, name: &str, wanted: &[Requirement]) -> bool {
        let Ok(package) = name.parse::<PackageName>() else { return false };
        let (mut wheels, mut sources) = (0, 0);
        for datum in self.listing(&package).await.into_iter().flatten() {
            let version = datum.version.to_string();
            if wanted.iter().all(|one| !one.is_named(name) || one.allows_version(&version)) {
                for (file, _) in datum.files.all(&package).filter(|(_, found)| !is_yanked(found)) {
                    match file {
                        DistFilename::WheelFilename(_) => wheels += 1,
                        DistFilename::SourceDistFilename(_) => sources += 1,
                    }
                }
            }
        }
        wheels == 0 && sources > 0
    }

    /// Returns the versions listed by the first index that has the package, or `None` on any error.
    fn listing<'a>(&'a self, name: &'a PackageName) -> LocalBoxFuture<'a, Option<Vec<SimpleDetailMetadatum>>> {
        let listing = async move {
            let (capabilities, semaphore) = (IndexCapabilities::default(), Semaphore::new(1));
            let pages = self.registry.client.simple_detail(name, None, &capabilities, &semaphore).await.ok()?;
            let simple = pages.into_iter().filter_map(|(_, page)| match page {
                MetadataFormat::Simple(page) => Some(OwnedArchive::deserialize(&page)),
                MetadataFormat::Flat(_) => None,
            });
            Some(simple.flatten().collect())
        };
        listing.boxed_local()
    }
}

fn is_yanked(file: &File) -> bool {
    file.yanked.as_ref().is_some_and(|yanked| yanked.is_yanked())
}

pub(super) fn deadline_error(time_limit: Duration) -> ResolveError {
    ResolveError::Deadline { seconds: time_limit.as_secs() }
}

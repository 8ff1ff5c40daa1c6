//! Source of versions and metadata for the resolver: the indexes, and the packages that a runtime has built in.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use uv_distribution::{ArchiveMetadata, Reporter};
use uv_distribution_types::{
    BuiltDist, Dist, IndexMetadata, InstalledDist, InstalledDistKind, InstalledRegistryDist, Name as _,
};
use uv_normalize::PackageName;
use uv_pypi_types::ResolutionMetadata;
use uv_resolver::{
    DefaultResolverProvider, MetadataResponse, PackageVersionsResult, ResolverProvider, VersionsResponse,
    WheelMetadataResult,
};
use uv_types::InstalledPackagesProvider;

use super::build_context::NoBuildContext;
use super::sources::MetadataProvider;
use crate::target::BuiltIn;

/// Built-in packages, with exactly one version each.
#[derive(Clone, Default)]
pub(super) struct BuiltInPackages(Arc<BTreeMap<PackageName, (InstalledDist, String)>>);

impl BuiltInPackages {
    pub(super) fn new(built_in: &[BuiltIn]) -> Self {
        let one = |BuiltIn { name, version, metadata }: &BuiltIn| {
            let name: PackageName = name.parse().ok()?;
            let path = Path::new("/").join(format!("{name}.dist-info")).into_boxed_path();
            let (version, cache_info, build_info) = (version.parse().ok()?, None, None);
            let dist = InstalledRegistryDist { name: name.clone(), version, path, cache_info, build_info };
            Some((name, (InstalledDist::from(InstalledDistKind::Registry(dist)), metadata.clone())))
        };
        Self(Arc::new(built_in.iter().filter_map(one).collect()))
    }
}

impl InstalledPackagesProvider for BuiltInPackages {
    fn iter(&self) -> impl Iterator<Item = &InstalledDist> {
        self.0.values().map(|(dist, _)| dist)
    }

    fn get_packages(&self, name: &PackageName) -> Vec<&InstalledDist> {
        self.0.get(name).map(|(dist, _)| dist).into_iter().collect()
    }
}

/// Provider that serves the packages of the indexes, except for the built-in ones.
pub(super) struct Provider<'a> {
    pub(super) index: DefaultResolverProvider<'a, NoBuildContext>,
    /// The indexes without source distributions, for packages whose authors publish platform-specific wheels: a build
    /// of these would not result in a pure wheel, so a target that requires pure wheels cannot use it.
    pub(super) wheels: Option<DefaultResolverProvider<'a, NoBuildContext>>,
    pub(super) built_in_packages: BuiltInPackages,
    /// The requested names that no index has.
    pub(super) unknown: Arc<Mutex<Vec<String>>>,
    pub(super) metadata_provider: MetadataProvider<'a>,
}

impl ResolverProvider for Provider<'_> {
    async fn get_package_versions<'io>(
        &'io self,
        name: &'io PackageName,
        index: Option<&'io IndexMetadata>,
    ) -> PackageVersionsResult {
        // A built-in package cannot be replaced by another version.
        if self.built_in_packages.0.contains_key(name) {
            return Ok(VersionsResponse::Found(Vec::new()));
        }
        let answer = match &self.wheels {
            Some(wheels) if self.metadata_provider.is_native(name).await => {
                wheels.get_package_versions(name, index).await
            }
            _ => self.index.get_package_versions(name, index).await,
        };
        if let (Ok(VersionsResponse::NotFound | VersionsResponse::NoIndex), Ok(mut unknown)) =
            (&answer, self.unknown.lock())
        {
            unknown.push(name.to_string());
        }
        answer
    }

    async fn get_or_build_wheel_metadata<'io>(&'io self, dist: &'io Dist) -> WheelMetadataResult {
        match dist {
            // Metadata that the index itself serves is limited by the client's middleware.
            Dist::Built(BuiltDist::Registry(built)) if !built.best_wheel().file.dist_info_metadata => {
                match self.metadata_provider.metadata_of_wheel(dist, built.best_wheel()).await {
                    Some(known) => Ok(known),
                    // The index provider reports that the network is disabled.
                    None => self.index.get_or_build_wheel_metadata(dist).await,
                }
            }
            Dist::Built(_) => self.index.get_or_build_wheel_metadata(dist).await,
            // The index provider is not used, since it would build the source distribution here.
            Dist::Source(source) => self.metadata_provider.metadata(dist, source).await,
        }
    }

    async fn get_installed_metadata<'io>(&'io self, dist: &'io InstalledDist) -> WheelMetadataResult {
        let text = self.built_in_packages.0.get(dist.name()).map_or("", |(_, metadata)| metadata.as_str());
        match ResolutionMetadata::parse_metadata(text.as_bytes()) {
            Ok(metadata) => Ok(MetadataResponse::Found(ArchiveMetadata::from_metadata23(metadata))),
            Err(error) => Err(uv_distribution::Error::Metadata(error)),
        }
    }

    fn with_reporter(self, reporter: Arc<dyn Reporter>) -> Self {
        Self { index: self.index.with_reporter(reporter), ..self }
    }
}

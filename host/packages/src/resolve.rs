//! Resolution of requirements to exact wheels, on the host, without building anything or starting Python.

mod build_context;
mod decide;
mod listing;
mod pinning;
mod provider;
mod read_limits;
mod resolve_error;
mod similar_names;
mod sources;
mod wheels;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uv_client::FlatIndexClient;
use uv_configuration::{BuildOptions, NoBinary, NoBuild};
use uv_distribution::DistributionDatabase;
use uv_distribution_types::{
    BuiltDist, Dist, IndexCapabilities, Name as _, RequiresPython, Resolution, ResolvedDist, SourceDist,
};
use uv_pypi_types::Conflicts;
use uv_resolver::{
    AllowedYanks, DefaultResolverProvider, FlatIndex, InMemoryIndex, Manifest, OptionsBuilder, PythonRequirement,
    Resolver, ResolverEnvironment, ResolverProvider as _, VersionsResponse,
};
use uv_types::HashStrategy;

use crate::fetch::Registry;
use crate::index::Index;
use crate::requirement::Requirement;
use crate::source::Sdist;
use crate::target::Target;
use crate::wheel::Wheel;
use build_context::NoBuildContext;
pub(crate) use decide::Decision;
use pinning::pin_file;
use provider::{BuiltInPackages, Provider};
use read_limits::ReadLimits;
pub(crate) use resolve_error::ResolveError;
pub(crate) use sources::SdistPolicy;
use sources::{MetadataErrors, MetadataProvider};

/// Resolution of requirements for one target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Resolved {
    /// The wheels, sorted by name.
    #[serde(default)]
    pub(crate) wheels: Vec<Wheel>,
    /// Names and versions of required packages that the runtime has built in.
    #[serde(default)]
    pub(crate) built_in: Vec<(String, String)>,
    /// The source distributions to build, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sources: Vec<Sdist>,
}

impl Resolved {
    /// Returns all files that are downloaded from an index.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Wheel> {
        self.wheels.iter().chain(self.sources.iter().map(|Sdist(file)| file))
    }
}

/// Maximum number of names that are looked up once one of them is unknown.
const MAX_UNKNOWN_LOOKUPS: usize = 20;

impl Index<'_> {
    /// Resolves requirements to wheels for a target, and to source distributions if `sources` allows them; a wheel is
    /// preferred to a source distribution of the same version. The versions of a package come only from the first index
    /// that has it.
    ///
    /// # Errors
    /// When there is no solution, a package is not in any index, or an index does not answer in time.
    /// [`ResolveError::BuildRequired`] names a source distribution that must be built to determine its requirements: build
    /// it, and resolve again.
    #[tracing::instrument(level = "debug", name = "resolve_python", skip_all)]
    pub(crate) async fn resolve(
        &self,
        requirements: &[Requirement],
        target: &Target,
        sources: SdistPolicy<'_>,
    ) -> Result<Resolved, ResolveError> {
        let time_limit = self.time_limit();
        let resolving = self.resolve_without_timeout(requirements, target, sources);
        timeout(time_limit, resolving).await.map_err(|_| listing::deadline_error(time_limit))?
    }

    /// Boxed in a function that is not `async` itself, like all functions that query an index: the future is large, and
    /// would otherwise be compiled again in each crate that awaits it.
    fn resolve_without_timeout<'a>(
        &'a self,
        requirements: &'a [Requirement],
        target: &'a Target,
        sources: SdistPolicy<'a>,
    ) -> LocalBoxFuture<'a, Result<Resolved, ResolveError>> {
        let resolved = async move {
            let Registry { client, cache } = &self.registry;
            let tags = target.tags()?;
            let markers = target.markers()?;
            let wheels_only = BuildOptions::new(NoBinary::None, NoBuild::All);
            let options = if sources.allows_builds() { BuildOptions::default() } else { wheels_only.clone() };
            let context = NoBuildContext::new(cache.clone(), self.settings.locations.clone());
            let flat = FlatIndexClient::new(client.cached_client(), self.settings.connectivity, cache);
            let flat = flat.fetch_all(self.settings.locations.flat_indexes().map(|index| index.url())).await;
            // A missing folder does not prevent the use of an index.
            let flat = flat.unwrap_or_default();
            let flat = FlatIndex::from_entries(flat, Some(&tags), &HashStrategy::None, &options);
            let version = markers.python_full_version().version.clone();
            let requires = RequiresPython::greater_than_equal_version(&version);
            let python = PythonRequirement::from_marker_environment(&markers, requires.clone());
            let environment = ResolverEnvironment::specific(markers.clone().into());
            let manifest = Manifest::simple(requirements.iter().map(Requirement::lower).collect());
            let resolver_options = OptionsBuilder::new().build_options(options.clone()).build();
            let hasher = HashStrategy::None;
            let yanks = AllowedYanks::from_manifest(&manifest, &environment, resolver_options.dependency_mode);
            let downloads = Arc::new(Semaphore::new(16));
            let capabilities = IndexCapabilities::default();
            let index = |options| {
                DefaultResolverProvider::new(
                    DistributionDatabase::new(client, &context, Arc::clone(&downloads)),
                    &flat,
                    Some(&tags),
                    &requires,
                    yanks.clone(),
                    &hasher,
                    resolver_options.exclude_newer.clone(),
                    &self.settings.locations,
                    options,
                    &capabilities,
                )
            };
            let built_in_packages = BuiltInPackages::new(target.built_in());
            let unknown = Arc::new(Mutex::new(Vec::new()));
            let metadata_errors = Arc::new(MetadataErrors::default());
            let is_wasm = matches!(target, Target::Wasm { .. });
            let provider = Provider {
                index: index(&options),
                wheels: (is_wasm && sources.allows_builds()).then(|| index(&wheels_only)),
                built_in_packages: built_in_packages.clone(),
                unknown: Arc::clone(&unknown),
                metadata_provider: MetadataProvider::new(
                    self,
                    sources,
                    Arc::clone(&metadata_errors),
                    ReadLimits::new(capabilities.clone()),
                ),
            };
            let git = uv_git::GitResolver::default();
            let resolver = Resolver::new_custom_io(
                manifest,
                resolver_options.clone(),
                &hasher,
                environment,
                &markers,
                Some(tags.clone()),
                &python,
                Conflicts::empty(),
                &InMemoryIndex::default(),
                &git,
                &capabilities,
                &self.settings.locations,
                provider,
                built_in_packages,
            );
            match resolver.resolve().await {
                Ok(output) => convert_resolution(&Resolution::from(output)),
                Err(error) => {
                    if let Some(metadata_error) = metadata_errors.take_cause(&error) {
                        return Err(metadata_error);
                    }
                    let mut unknown = unknown.lock().map(|names| names.clone()).unwrap_or_default();
                    if !unknown.is_empty() {
                        // The resolver stops at the first unknown name, but the error lists all of them.
                        let rest = unconditional_names(requirements, target).filter(|name| !unknown.contains(name));
                        let rest: BTreeSet<String> = rest.take(MAX_UNKNOWN_LOOKUPS).collect();
                        let again = index(&options);
                        for name in rest {
                            let Ok(package) = name.parse() else { continue };
                            let answer = again.get_package_versions(&package, None).await;
                            if let Ok(VersionsResponse::NotFound | VersionsResponse::NoIndex) = answer {
                                unknown.push(name);
                            }
                        }
                    }
                    Err(resolve_error::from_resolver(error, unknown, requirements, target, self.settings))
                }
            }
        };
        resolved.boxed_local()
    }
}

/// Returns the names of the unconditional requirements that are not built in.
fn unconditional_names<'a>(requirements: &'a [Requirement], target: &'a Target) -> impl Iterator<Item = String> + 'a {
    let is_built_in = |name: &str| target.built_in().iter().any(|built_in| built_in.name == name);
    requirements
        .iter()
        .filter(move |one| !one.has_marker() && !is_built_in(one.name()))
        .map(|one| one.name().to_owned())
}

/// Converts the resolver's result.
fn convert_resolution(resolution: &Resolution) -> Result<Resolved, ResolveError> {
    let mut resolved = Resolved::default();
    for dist in resolution.distributions() {
        match dist {
            ResolvedDist::Installed { dist } => {
                resolved.built_in.push((dist.name().to_string(), dist.version().to_string()));
            }
            ResolvedDist::Installable { dist, .. } => match &**dist {
                Dist::Built(BuiltDist::Registry(built)) => {
                    let wheel = built.best_wheel();
                    let filename = &wheel.filename;
                    let pinned = pin_file(&filename.name, &filename.version, &wheel.file, &wheel.index)?;
                    resolved.wheels.push(pinned);
                }
                Dist::Source(SourceDist::Registry(found)) => resolved.sources.push(sources::sdist(found)?),
                other => return Err(ResolveError::MissingHash { file: other.to_string() }),
            },
        }
    }
    resolved.wheels.sort_by(|one, other| one.name.cmp(&other.name));
    resolved.sources.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    resolved.built_in.sort();
    Ok(resolved)
}

/// Returns the names of the packages that are for one platform only, the required ones first.
#[must_use]
pub(crate) fn native_packages<'r>(resolved: &'r Resolved, requirements: &[Requirement]) -> Vec<&'r str> {
    let requested: BTreeSet<&str> = requirements.iter().map(Requirement::name).collect();
    let mut names: Vec<&str> =
        resolved.wheels.iter().filter(|wheel| !wheel.is_pure()).map(|wheel| wheel.name.as_str()).collect();
    names.sort_by_key(|name| (!requested.contains(name), *name));
    names
}

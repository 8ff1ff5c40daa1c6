//! Resolution of requirements to exact wheels, on the host, without building anything or starting Python.

mod build_context;
mod decide;
mod listing;
mod provider;
mod resolve_error;
mod similar_names;
mod sources;
mod target;
mod wheels;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uv_cache::Cache;
use uv_client::FlatIndexClient;
use uv_configuration::{BuildOptions, NoBinary, NoBuild};
use uv_distribution::DistributionDatabase;
use uv_distribution_types::{
    BuiltDist, Dist, FileLocation, IndexCapabilities, IndexFormat, IndexUrl, Name as _, RequiresPython, Resolution,
    ResolvedDist, SourceDist,
};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_pypi_types::Conflicts;
use uv_redacted::DisplaySafeUrl;
use uv_resolver::{
    AllowedYanks, DefaultResolverProvider, FlatIndex, InMemoryIndex, Manifest, OptionsBuilder, PythonRequirement,
    Resolver, ResolverEnvironment, ResolverProvider as _, VersionsResponse,
};
use uv_types::HashStrategy;

use crate::address_policy::check_file_url;
use crate::error::FetchError;
use crate::fetch::{Candidate, FileKind, MAX_WHEEL_SIZE, Registry, fetch_with_client, registry_with_cache, transfer};
use crate::pin::{Pin, Sha256};
use crate::requirement::Requirement;
use crate::settings::{IndexSettings, redacted_url};
use crate::source::Sdist;
use build_context::NoBuildContext;
use codebox_core::Progress;
pub use decide::Decision;
use provider::{BuiltInPackages, Provider};
pub use resolve_error::ResolveError;
pub use sources::SdistPolicy;
use sources::{MetadataErrors, MetadataProvider};
pub use target::{BuiltIn, ImageInterpreter, Target, read_built_in_packages};
use wheels::ReadLimits;
pub(crate) use wheels::WHEEL_DIR_PREFIX;

/// One exact wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package's name.
    pub name: String,
    /// The package's version.
    pub version: String,
    /// The wheel's file name.
    pub file: String,
    /// The URL of the file, without credentials. Empty if the user's indexes are to be searched for it.
    pub url: String,
    /// The sha256 of the file.
    pub sha256: String,
    /// The size in bytes, if the index lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Wheel {
    /// Returns true if the wheel is for any platform.
    #[must_use]
    pub fn is_pure(&self) -> bool {
        self.file.ends_with("-none-any.whl")
    }
}

/// Resolution of requirements for one target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resolved {
    /// The wheels, sorted by name.
    #[serde(default)]
    pub wheels: Vec<Wheel>,
    /// Names and versions of required packages that the runtime has built in.
    #[serde(default)]
    pub built_in: Vec<(String, String)>,
    /// The source distributions to build, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Sdist>,
}

impl Resolved {
    /// Returns all files that are downloaded from an index.
    pub fn files(&self) -> impl Iterator<Item = &Wheel> {
        self.wheels.iter().chain(self.sources.iter().map(|Sdist(file)| file))
    }
}

/// Client for the user's indexes.
pub struct Index<'s> {
    settings: &'s IndexSettings,
    registry: Registry,
}

/// Number of read timeouts after which a resolution is aborted; a download gets twice as many.
const READ_TIMEOUTS_PER_RESOLUTION: u32 = 10;

/// Maximum number of names that are looked up once one of them is unknown.
const MAX_UNKNOWN_LOOKUPS: usize = 20;

/// Minimum download rate in bytes per second. The time limit of a download is extended by its size at this rate.
const MIN_DOWNLOAD_RATE: u64 = 256 << 10;

impl<'s> Index<'s> {
    /// Opens a client. Responses of indexes are cached below `cache`, for other processes as well.
    ///
    /// # Errors
    /// When the cache or the client cannot be created.
    pub fn open<'a>(settings: &'s IndexSettings, cache: &'a Path) -> LocalBoxFuture<'a, Result<Self, FetchError>>
    where
        's: 'a,
    {
        let opened = async move {
            let cache = Cache::from_path(cache).init().await.map_err(|error| FetchError::Client(error.into()))?;
            Ok(Self { settings, registry: registry_with_cache(settings, cache)? })
        };
        opened.boxed_local()
    }

    /// Resolves requirements to wheels for a target, and to source distributions if `sources` allows them; a wheel is
    /// preferred to a source distribution of the same version. The versions of a package come only from the first index
    /// that has it.
    ///
    /// # Errors
    /// When there is no solution, a package is not in any index, or an index does not answer in time.
    /// [`ResolveError::BuildRequired`] names a source distribution that must be built to determine its requirements: build
    /// it, and resolve again.
    pub async fn resolve(
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
                    (Arc::clone(&metadata_errors), ReadLimits::new(capabilities.clone())),
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

    /// Returns the time limit of a resolution.
    fn time_limit(&self) -> Duration {
        self.settings.read_timeout.saturating_mul(READ_TIMEOUTS_PER_RESOLUTION)
    }

    /// Downloads a wheel to the file `into`, if its content is the expected one.
    ///
    /// # Errors
    /// As for [`fetch_wheel`](crate::fetch_wheel), and when the time limit is exceeded.
    pub async fn download(&self, wheel: &Wheel, into: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
        self.download_file(wheel, FileKind::Wheels, into, progress).await
    }

    /// Downloads a source distribution to the file `into`, if its content is the expected one.
    pub(crate) async fn download_source(
        &self,
        Sdist(file): &Sdist,
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), FetchError> {
        self.download_file(file, FileKind::Sdists, into, progress).await
    }

    fn download_file<'a>(
        &'a self,
        wheel: &'a Wheel,
        kind: FileKind,
        into: &'a Path,
        progress: &'a dyn Progress,
    ) -> LocalBoxFuture<'a, Result<(), FetchError>> {
        let downloaded = async move {
            let sha256: Sha256 = wheel.sha256.parse().map_err(|_| FetchError::Name(wheel.file.clone()))?;
            let Wheel { name, version, file, url, size, .. } = wheel;
            let pin = Pin { name: name.clone(), version: version.clone(), sha256, size: *size };
            let time_limit =
                self.settings.read_timeout.saturating_mul(2 * READ_TIMEOUTS_PER_RESOLUTION).max(Duration::from_secs(1));
            let time_limit =
                time_limit + Duration::from_secs(size.unwrap_or(0).min(MAX_WHEEL_SIZE) / MIN_DOWNLOAD_RATE);
            let deadline_error = |index: String| {
                let source = format!("timed out downloading {file} after {} s", time_limit.as_secs()).into();
                FetchError::InvalidResponse { index, package: name.clone(), source }
            };
            if url.is_empty() {
                let found = fetch_with_client(&self.registry, (&pin, kind), self.settings, into, progress);
                return timeout(time_limit, found)
                    .await
                    .unwrap_or_else(|_| Err(deadline_error("in the settings".to_owned())));
            }
            let candidate = Candidate {
                index: url_host(url),
                file: uv_distribution_types::File {
                    dist_info_metadata: false,
                    filename: file.as_str().into(),
                    hashes: Vec::new().into(),
                    requires_python: None,
                    size: *size,
                    upload_time_utc_ms: None,
                    url: FileLocation::new(url.as_str().into(), &"".into()),
                    yanked: None,
                    zstd: None,
                },
            };
            let moved = transfer(&candidate, &pin, self.settings, &self.registry, into, progress);
            timeout(time_limit, moved).await.unwrap_or_else(|_| Err(deadline_error(url_host(url))))
        };
        downloaded.boxed_local()
    }

    /// Returns the URLs of the indexes, without credentials and without flat indexes.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let simple = |index: &&uv_distribution_types::Index| index.format == IndexFormat::Simple;
        self.settings.search_order().filter(simple).map(redacted_url).collect()
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
                    let named = (&filename.name, &filename.version);
                    resolved.wheels.push(pin_file(named, &wheel.file, &wheel.index)?);
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

/// Converts a file of an index to a pinned file. Fails if the file has no hash.
fn pin_file(
    (name, version): (&PackageName, &Version),
    file: &uv_distribution_types::File,
    index: &IndexUrl,
) -> Result<Wheel, ResolveError> {
    let mut url = file_url(file, index)?;
    url.set_fragment(None);
    let announced = file.hashes.iter().find(|digest| digest.algorithm.to_string() == "sha256");
    let sha256 = match announced {
        Some(digest) => digest.digest.to_string(),
        // A local folder lists no hashes, so the hash is computed.
        None if url.scheme() == "file" => {
            url.to_file_path().ok().and_then(|path| local_hash(&path)).ok_or_else(|| missing_hash(file))?
        }
        None => return Err(missing_hash(file)),
    };
    sha256.parse::<Sha256>().map_err(|_| missing_hash(file))?;
    Ok(Wheel {
        name: name.to_string(),
        version: version.to_string(),
        file: file.filename.to_string(),
        url: url.without_credentials().to_string(),
        sha256,
        size: file.size,
    })
}

/// Returns the URL of an index's file.
fn file_url(file: &uv_distribution_types::File, index: &IndexUrl) -> Result<DisplaySafeUrl, ResolveError> {
    let url = file.url.to_url().map_err(|_| missing_hash(file))?;
    check_file_url(index, &url)
        .map_err(|forbidden_address| ResolveError::ForbiddenAddress(forbidden_address.into()))?;
    Ok(url)
}

fn missing_hash(file: &uv_distribution_types::File) -> ResolveError {
    ResolveError::MissingHash { file: file.filename.to_string() }
}

fn local_hash(path: &Path) -> Option<String> {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let mut file = crate::disk::open(path).ok()?;
    std::io::copy(&mut file, &mut hash).ok()?;
    Some(Sha256::from_bytes(hash.finalize().into()).to_string())
}

/// Returns the host of a URL, for error messages.
fn url_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.is_empty() { url.to_owned() } else { host.to_owned() }
}

/// Returns the names of the packages that are for one platform only, the required ones first.
#[must_use]
pub fn native_packages<'r>(resolved: &'r Resolved, requirements: &[Requirement]) -> Vec<&'r str> {
    let requested: BTreeSet<&str> = requirements.iter().map(Requirement::name).collect();
    let mut names: Vec<&str> =
        resolved.wheels.iter().filter(|wheel| !wheel.is_pure()).map(|wheel| wheel.name.as_str()).collect();
    names.sort_by_key(|name| (!requested.contains(name), *name));
    names
}

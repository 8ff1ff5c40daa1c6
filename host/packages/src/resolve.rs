//! Resolution of requirements to exact wheels, on the host, without building anything or starting Python.

mod decide;
mod near;
mod pages;
mod provider;
mod refusal;
mod sources;
mod target;
mod unbuilt;
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

use crate::error::FetchError;
use crate::fetch::{Candidate, LARGEST, Registry, Sought, fetch_by, registry_in, transfer};
use crate::pin::{Pin, Sha256};
use crate::reach::may_have;
use crate::requirement::Requirement;
use crate::settings::{IndexSettings, address};
use crate::source::Sdist;
use codebox_core::Progress;
pub use decide::Decision;
use provider::{Present, Provider};
pub use refusal::ResolveError;
pub use sources::Sources;
use sources::{Asker, Troubles};
pub use target::{BuiltIn, Image, Target, built_in_of};
use unbuilt::Unbuilt;
use wheels::Looks;
pub(crate) use wheels::WHOLE;

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
const PAUSES: u32 = 10;

/// Maximum number of names that are looked up once one of them is unknown.
const MOST_UNKNOWN: usize = 20;

/// Minimum download rate in bytes per second. The time limit of a download is extended by its size at this rate.
const SLOWEST: u64 = 256 << 10;

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
            Ok(Self { settings, registry: registry_in(settings, cache)? })
        };
        opened.boxed_local()
    }

    /// Resolves requirements to wheels for a target, and to source distributions if `sources` allows them; a wheel is
    /// preferred to a source distribution of the same version. The versions of a package come only from the first index
    /// that has it.
    ///
    /// # Errors
    /// When there is no solution, a package is not in any index, or an index does not answer in time.
    /// [`ResolveError::Unbuilt`] names a source distribution that must be built to determine its requirements: build
    /// it, and resolve again.
    pub async fn resolve(
        &self,
        wanted: &[Requirement],
        target: &Target,
        sources: Sources<'_>,
    ) -> Result<Resolved, ResolveError> {
        let patience = self.patience();
        let resolving = self.resolve_patiently(wanted, target, sources);
        timeout(patience, resolving).await.map_err(|_| pages::late(patience))?
    }

    /// Boxed in a function that is not `async` itself, like all functions that query an index: the future is large, and
    /// would otherwise be compiled again in each crate that awaits it.
    fn resolve_patiently<'a>(
        &'a self,
        wanted: &'a [Requirement],
        target: &'a Target,
        sources: Sources<'a>,
    ) -> LocalBoxFuture<'a, Result<Resolved, ResolveError>> {
        let resolved = async move {
            let Registry { client, cache } = &self.registry;
            let tags = target.tags()?;
            let markers = target.markers()?;
            let wheels_alone = BuildOptions::new(NoBinary::None, NoBuild::All);
            let options = if sources.serve() { BuildOptions::default() } else { wheels_alone.clone() };
            let context = Unbuilt::new(cache.clone(), self.settings.locations.clone());
            let flat = FlatIndexClient::new(client.cached_client(), self.settings.connectivity, cache);
            let flat = flat.fetch_all(self.settings.locations.flat_indexes().map(|index| index.url())).await;
            // A missing folder does not prevent the use of an index.
            let flat = flat.unwrap_or_default();
            let flat = FlatIndex::from_entries(flat, Some(&tags), &HashStrategy::None, &options);
            let version = markers.python_full_version().version.clone();
            let requires = RequiresPython::greater_than_equal_version(&version);
            let python = PythonRequirement::from_marker_environment(&markers, requires.clone());
            let environment = ResolverEnvironment::specific(markers.clone().into());
            let manifest = Manifest::simple(wanted.iter().map(Requirement::lower).collect());
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
            let present = Present::new(target.built_in());
            let unknown = Arc::new(Mutex::new(Vec::new()));
            let troubles = Arc::new(Troubles::default());
            let is_wasm = matches!(target, Target::Wasm { .. });
            let provider = Provider {
                index: index(&options),
                wheels: (is_wasm && sources.serve()).then(|| index(&wheels_alone)),
                present: present.clone(),
                unknown: Arc::clone(&unknown),
                asker: Asker::new(self, sources, (Arc::clone(&troubles), Looks::new(capabilities.clone()))),
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
                present,
            );
            match resolver.resolve().await {
                Ok(output) => resolved_by(&Resolution::from(output)),
                Err(error) => {
                    if let Some(trouble) = troubles.behind(&error) {
                        return Err(trouble);
                    }
                    let mut unknown = unknown.lock().map(|names| names.clone()).unwrap_or_default();
                    if !unknown.is_empty() {
                        // The resolver stops at the first unknown name, but the error lists all of them.
                        let rest = asked_plainly(wanted, target).filter(|name| !unknown.contains(name));
                        let rest: BTreeSet<String> = rest.take(MOST_UNKNOWN).collect();
                        let again = index(&options);
                        for name in rest {
                            let Ok(package) = name.parse() else { continue };
                            let answer = again.get_package_versions(&package, None).await;
                            if let Ok(VersionsResponse::NotFound | VersionsResponse::NoIndex) = answer {
                                unknown.push(name);
                            }
                        }
                    }
                    Err(refusal::of(error, unknown, wanted, target, self.settings))
                }
            }
        };
        resolved.boxed_local()
    }

    /// Returns the time limit of a resolution.
    fn patience(&self) -> Duration {
        self.settings.read_timeout.saturating_mul(PAUSES)
    }

    /// Downloads a wheel to the file `into`, if its content is the expected one.
    ///
    /// # Errors
    /// As for [`fetch_wheel`](crate::fetch_wheel), and when the time limit is exceeded.
    pub async fn bring(&self, wheel: &Wheel, into: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
        self.bring_file(wheel, Sought::Wheels, into, progress).await
    }

    /// Downloads a source distribution to the file `into`, if its content is the expected one.
    pub(crate) async fn bring_source(
        &self,
        Sdist(file): &Sdist,
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), FetchError> {
        self.bring_file(file, Sought::Sources, into, progress).await
    }

    fn bring_file<'a>(
        &'a self,
        wheel: &'a Wheel,
        sought: Sought,
        into: &'a Path,
        progress: &'a dyn Progress,
    ) -> LocalBoxFuture<'a, Result<(), FetchError>> {
        let brought = async move {
            let sha256: Sha256 = wheel.sha256.parse().map_err(|_| FetchError::Name(wheel.file.clone()))?;
            let Wheel { name, version, file, url, size, .. } = wheel;
            let pin = Pin { name: name.clone(), version: version.clone(), sha256, size: *size };
            let patience = self.settings.read_timeout.saturating_mul(2 * PAUSES).max(Duration::from_secs(1));
            let patience = patience + Duration::from_secs(size.unwrap_or(0).min(LARGEST) / SLOWEST);
            let late = |index: String| {
                let source = format!("timed out downloading {file} after {} s", patience.as_secs()).into();
                FetchError::Answer { index, package: name.clone(), source }
            };
            if url.is_empty() {
                let found = fetch_by(&self.registry, (&pin, sought), self.settings, into, progress);
                return timeout(patience, found).await.unwrap_or_else(|_| Err(late("in the settings".to_owned())));
            }
            let candidate = Candidate {
                index: host_of(url),
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
            timeout(patience, moved).await.unwrap_or_else(|_| Err(late(host_of(url))))
        };
        brought.boxed_local()
    }

    /// Returns the URLs of the indexes, without credentials and without flat indexes.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let simple = |index: &&uv_distribution_types::Index| index.format == IndexFormat::Simple;
        self.settings.in_order().filter(simple).map(address).collect()
    }
}

/// Returns the names of the unconditional requirements that are not built in.
fn asked_plainly<'a>(wanted: &'a [Requirement], target: &'a Target) -> impl Iterator<Item = String> + 'a {
    let is_built_in = |name: &str| target.built_in().iter().any(|built_in| built_in.name == name);
    wanted.iter().filter(move |one| !one.has_marker() && !is_built_in(one.name())).map(|one| one.name().to_owned())
}

/// Converts the resolver's result.
fn resolved_by(resolution: &Resolution) -> Result<Resolved, ResolveError> {
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
                    resolved.wheels.push(pinned(named, &wheel.file, &wheel.index)?);
                }
                Dist::Source(SourceDist::Registry(found)) => resolved.sources.push(sources::sdist(found)?),
                other => return Err(ResolveError::Unlocked { file: other.to_string() }),
            },
        }
    }
    resolved.wheels.sort_by(|one, other| one.name.cmp(&other.name));
    resolved.sources.sort_by(|one, other| one.0.name.cmp(&other.0.name));
    resolved.built_in.sort();
    Ok(resolved)
}

/// Converts a file of an index to a pinned file. Fails if the file has no hash.
fn pinned(
    (name, version): (&PackageName, &Version),
    file: &uv_distribution_types::File,
    index: &IndexUrl,
) -> Result<Wheel, ResolveError> {
    let mut url = served(file, index)?;
    url.set_fragment(None);
    let announced = file.hashes.iter().find(|digest| digest.algorithm.to_string() == "sha256");
    let sha256 = match announced {
        Some(digest) => digest.digest.to_string(),
        // A local folder lists no hashes, so the hash is computed.
        None if url.scheme() == "file" => {
            url.to_file_path().ok().and_then(|path| local_hash(&path)).ok_or_else(|| unlocked(file))?
        }
        None => return Err(unlocked(file)),
    };
    sha256.parse::<Sha256>().map_err(|_| unlocked(file))?;
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
fn served(file: &uv_distribution_types::File, index: &IndexUrl) -> Result<DisplaySafeUrl, ResolveError> {
    let url = file.url.to_url().map_err(|_| unlocked(file))?;
    may_have(index, &url).map_err(|astray| ResolveError::Astray(astray.into()))?;
    Ok(url)
}

fn unlocked(file: &uv_distribution_types::File) -> ResolveError {
    ResolveError::Unlocked { file: file.filename.to_string() }
}

fn local_hash(path: &Path) -> Option<String> {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let mut file = crate::disk::open(path).ok()?;
    std::io::copy(&mut file, &mut hash).ok()?;
    Some(Sha256::from_bytes(hash.finalize().into()).to_string())
}

/// Returns the host of a URL, for error messages.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if place.is_empty() { url.to_owned() } else { place.to_owned() }
}

/// Returns the names of the packages that are for one platform only, the required ones first.
#[must_use]
pub fn native<'r>(resolved: &'r Resolved, wanted: &[Requirement]) -> Vec<&'r str> {
    let asked: BTreeSet<&str> = wanted.iter().map(Requirement::name).collect();
    let mut names: Vec<&str> =
        resolved.wheels.iter().filter(|wheel| !wheel.is_pure()).map(|wheel| wheel.name.as_str()).collect();
    names.sort_by_key(|name| (!asked.contains(name), *name));
    names
}

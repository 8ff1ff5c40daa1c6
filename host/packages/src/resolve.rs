//! From requirements to exact wheels, on the host, with nothing built and no Python started.

mod decide;
mod near;
mod provider;
mod refusal;
mod target;
mod unbuilt;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uv_cache::Cache;
use uv_client::{FlatIndexClient, MetadataFormat, OwnedArchive};
use uv_configuration::{BuildOptions, NoBinary, NoBuild};
use uv_distribution::DistributionDatabase;
use uv_distribution_filename::DistFilename;
use uv_distribution_types::{
    BuiltDist, Dist, FileLocation, IndexCapabilities, IndexFormat, Name as _, RegistryBuiltWheel, RequiresPython,
    Resolution, ResolvedDist,
};
use uv_normalize::PackageName;
use uv_pep440::Version;
use uv_pep508::VersionOrUrl;
use uv_pypi_types::Conflicts;
use uv_resolver::{
    AllowedYanks, DefaultResolverProvider, FlatIndex, InMemoryIndex, Manifest, OptionsBuilder, PythonRequirement,
    Resolver, ResolverEnvironment,
};
use uv_types::HashStrategy;

use crate::error::FetchError;
use crate::fetch::{Candidate, LARGEST, Registry, fetch_by, registry_in, transfer};
use crate::pin::{Pin, Sha256};
use crate::progress::Progress;
use crate::requirement::Requirement;
use crate::settings::{IndexSettings, address};
pub use decide::Decision;
use provider::{Present, Provider};
pub use refusal::ResolveError;
pub use target::{BuiltIn, Image, Target, built_in_of};
use unbuilt::Unbuilt;

/// One wheel, exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wheel {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The wheel's file name.
    pub file: String,
    /// Where it was found, without credentials. Empty where the user's indexes are to be asked for it.
    pub url: String,
    /// Its content.
    pub sha256: String,
    /// Its size, where the index told it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Wheel {
    /// Whether it is for any platform.
    #[must_use]
    pub fn is_pure(&self) -> bool {
        self.file.ends_with("-none-any.whl")
    }
}

/// What requirements come to for one target.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resolved {
    /// The wheels, by name.
    #[serde(default)]
    pub wheels: Vec<Wheel>,
    /// What the runtime has built in and is wanted: names and versions.
    #[serde(default)]
    pub built_in: Vec<(String, String)>,
}

/// The user's indexes, ready to be asked.
pub struct Index<'s> {
    settings: &'s IndexSettings,
    registry: Registry,
}

type Boxed<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;

/// Answers are given up after so many times the longest pause that the settings allow.
const PAUSES: u32 = 10;

/// A file may take longer than that, by its size at this many bytes a second.
const SLOWEST: u64 = 256 << 10;

impl<'s> Index<'s> {
    /// Gets ready to ask. What indexes say is kept below `cache`, for other processes too.
    ///
    /// # Errors
    /// When the cache or the client cannot be had.
    pub async fn open(settings: &'s IndexSettings, cache: &Path) -> Result<Self, FetchError> {
        let made: Boxed<'_, Result<Cache, uv_cache::Error>> = Box::pin(Cache::from_path(cache).init());
        let cache = made.await.map_err(|error| FetchError::Client(error.into()))?;
        Ok(Self { settings, registry: registry_in(settings, cache)? })
    }

    /// Chooses wheels for a target. Only the first index that knows a name is asked for its versions.
    ///
    /// # Errors
    /// When there is no solution, a name that no index has, or an index does not answer in time.
    pub async fn resolve(&self, wanted: &[Requirement], target: &Target) -> Result<Resolved, ResolveError> {
        let patience = self.patience();
        // Boxed: it is large, and whoever waits for it should not be compiled together with it.
        let resolving: Boxed<'_, Result<Resolved, ResolveError>> = Box::pin(self.resolve_patiently(wanted, target));
        let resolved = timeout(patience, resolving).await;
        resolved.map_err(|_| ResolveError::Deadline { seconds: patience.as_secs() })?
    }

    async fn resolve_patiently(&self, wanted: &[Requirement], target: &Target) -> Result<Resolved, ResolveError> {
        let Registry { client, cache } = &self.registry;
        let tags = target.tags()?;
        let markers = target.markers()?;
        let options = BuildOptions::new(NoBinary::None, NoBuild::All);
        let context = Unbuilt::new(cache.clone(), self.settings.locations.clone());
        let flat = FlatIndexClient::new(client.cached_client(), self.settings.connectivity, cache);
        let flat = flat.fetch_all(self.settings.locations.flat_indexes().map(|index| index.url())).await;
        // A folder that is not there does not stand in the way of an index.
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
        let database = DistributionDatabase::new(client, &context, downloads);
        let capabilities = IndexCapabilities::default();
        let index = DefaultResolverProvider::new(
            database,
            &flat,
            Some(&tags),
            &requires,
            yanks,
            &hasher,
            resolver_options.exclude_newer.clone(),
            &self.settings.locations,
            &options,
            &capabilities,
        );
        let present = Present::new(target.built_in());
        let unknown = Arc::new(Mutex::new(Vec::new()));
        let provider = Provider { index, present: present.clone(), unknown: Arc::clone(&unknown) };
        let git = uv_git::GitResolver::default();
        let resolver = Resolver::new_custom_io(
            manifest,
            resolver_options,
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
                let unknown = unknown.lock().map(|names| names.clone()).unwrap_or_default();
                Err(refusal::of(error, unknown, wanted, target, self.settings))
            }
        }
    }

    /// The newest version that an index has wheels of for this version of Python, whatever their platform.
    ///
    /// Nothing where no index tells.
    ///
    /// # Errors
    /// When an index does not answer in time.
    pub async fn newest(&self, wanted: &Requirement, python: &str) -> Result<Option<String>, ResolveError> {
        let patience = self.patience();
        let asked: Boxed<'_, Option<String>> = Box::pin(self.newest_listed(wanted, python));
        timeout(patience, asked).await.map_err(|_| ResolveError::Deadline { seconds: patience.as_secs() })
    }

    /// How long one question may take altogether.
    fn patience(&self) -> Duration {
        self.settings.read_timeout.saturating_mul(PAUSES)
    }

    async fn newest_listed(&self, wanted: &Requirement, python: &str) -> Option<String> {
        let name: PackageName = wanted.name().parse().ok()?;
        let python: Version = python.parse().ok()?;
        let (abilities, turns) = (IndexCapabilities::default(), Semaphore::new(1));
        let pages = self.registry.client.simple_detail(&name, None, &abilities, &turns).await.ok()?;
        let wanted = match &wanted.inner().version_or_url {
            Some(VersionOrUrl::VersionSpecifier(specifiers)) => Some(specifiers),
            _ => None,
        };
        let mut newest: Option<Version> = None;
        for (_, page) in pages {
            let MetadataFormat::Simple(page) = page else { continue };
            for datum in OwnedArchive::deserialize(&page) {
                let version = &datum.version;
                if version.any_prerelease() || wanted.is_some_and(|wanted| !wanted.contains(version)) {
                    continue;
                }
                if newest.as_ref().is_some_and(|newest| newest >= version) {
                    continue;
                }
                let serves = datum.files.all(&name).any(|(file, found)| {
                    matches!(file, DistFilename::WheelFilename(_))
                        && !found.yanked.as_ref().is_some_and(|yanked| yanked.is_yanked())
                        && found.requires_python.as_ref().is_none_or(|versions| versions.contains(&python))
                });
                if serves {
                    newest = Some(datum.version);
                }
            }
        }
        newest.map(|version| version.to_string())
    }

    /// Brings a wheel to the file `into`, if its content is the expected one.
    ///
    /// # Errors
    /// As for [`fetch_wheel`](crate::fetch_wheel), and when it takes too long.
    pub async fn bring(&self, wheel: &Wheel, into: &Path, progress: &dyn Progress) -> Result<(), FetchError> {
        let sha256: Sha256 = wheel.sha256.parse().map_err(|_| FetchError::Name(wheel.file.clone()))?;
        let Wheel { name, version, file, url, size, .. } = wheel;
        let pin = Pin { name: name.clone(), version: version.clone(), sha256, size: *size };
        let patience = self.settings.read_timeout.saturating_mul(2 * PAUSES).max(Duration::from_secs(1));
        let patience = patience + Duration::from_secs(size.unwrap_or(0).min(LARGEST) / SLOWEST);
        let late = |index: String| {
            let source = format!("{file} did not arrive within {} s", patience.as_secs()).into();
            FetchError::Answer { index, package: name.clone(), source }
        };
        if url.is_empty() {
            let found: Boxed<'_, Result<(), FetchError>> =
                Box::pin(fetch_by(&self.registry, &pin, self.settings, into, progress));
            return timeout(patience, found).await.unwrap_or_else(|_| Err(late("of the user's".to_owned())));
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
        let moved: Boxed<'_, Result<(), FetchError>> =
            Box::pin(transfer(&candidate, &pin, self.settings, &self.registry, into, progress));
        timeout(patience, moved).await.unwrap_or_else(|_| Err(late(host_of(url))))
    }

    /// The addresses of the indexes that are asked, without credentials.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let simple = |index: &&uv_distribution_types::Index| index.format == IndexFormat::Simple;
        self.settings.in_order().filter(simple).map(address).collect()
    }
}

/// What a resolution comes to.
fn resolved_by(resolution: &Resolution) -> Result<Resolved, ResolveError> {
    let mut resolved = Resolved::default();
    for dist in resolution.distributions() {
        match dist {
            ResolvedDist::Installed { dist } => {
                resolved.built_in.push((dist.name().to_string(), dist.version().to_string()));
            }
            ResolvedDist::Installable { dist, .. } => match &**dist {
                Dist::Built(BuiltDist::Registry(built)) => resolved.wheels.push(wheel(built.best_wheel())?),
                other => return Err(ResolveError::Unlocked { file: other.to_string() }),
            },
        }
    }
    resolved.wheels.sort_by(|one, other| one.name.cmp(&other.name));
    resolved.built_in.sort();
    Ok(resolved)
}

/// A wheel of an index as it is kept: only with its hash.
fn wheel(found: &RegistryBuiltWheel) -> Result<Wheel, ResolveError> {
    let file = &found.file;
    let mut url = file.url.to_url().map_err(|_| ResolveError::Unlocked { file: file.filename.to_string() })?;
    url.set_fragment(None);
    let announced = file.hashes.iter().find(|digest| digest.algorithm.to_string() == "sha256");
    let sha256 = match announced {
        Some(digest) => digest.digest.to_string(),
        // A folder of this machine tells no hashes, and can be asked for one.
        None if url.scheme() == "file" => {
            url.to_file_path().ok().and_then(|path| local_hash(&path)).ok_or_else(|| unlocked(file))?
        }
        None => return Err(unlocked(file)),
    };
    sha256.parse::<Sha256>().map_err(|_| unlocked(file))?;
    Ok(Wheel {
        name: found.filename.name.to_string(),
        version: found.filename.version.to_string(),
        file: file.filename.to_string(),
        url: url.without_credentials().to_string(),
        sha256,
        size: file.size,
    })
}

fn unlocked(file: &uv_distribution_types::File) -> ResolveError {
    ResolveError::Unlocked { file: file.filename.to_string() }
}

fn local_hash(path: &Path) -> Option<String> {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    let mut file = std::fs::File::open(path).ok()?;
    std::io::copy(&mut file, &mut hash).ok()?;
    Some(Sha256::from_bytes(hash.finalize().into()).to_string())
}

/// Where an address leads, in words: its host.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if place.is_empty() { url.to_owned() } else { place.to_owned() }
}

/// The packages among these that are for one platform only, those that were asked for first.
#[must_use]
pub fn native<'r>(resolved: &'r Resolved, wanted: &[Requirement]) -> Vec<&'r str> {
    let asked: BTreeSet<&str> = wanted.iter().map(Requirement::name).collect();
    let mut names: Vec<&str> =
        resolved.wheels.iter().filter(|wheel| !wheel.is_pure()).map(|wheel| wheel.name.as_str()).collect();
    names.sort_by_key(|name| (!asked.contains(name), *name));
    names
}

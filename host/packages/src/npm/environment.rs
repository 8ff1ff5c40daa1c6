//! Directories of packages, assembled once and reused.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};

use super::client::{Client, RegistryQuery, RegistryResponse, timeout};
use super::error::NpmError;
use super::metadata::packument;
use super::native::{Native, NativePackage};
use super::resolve::{archive, resolve};
use super::settings::{NpmSettings, redacted_url};
use super::spec::NpmSpec;
use super::store::{NpmStore, PackageProperties};
use super::tarball;
use super::target::Target;
use super::tree::{self, NpmPackage, NpmTree, NpmTreeError};
use crate::unpack::UnpackLimits;
use codebox_core::Progress;

/// Time for which a resolution without a lock is valid. If the registry cannot be reached, an older one is used as
/// well.
const RESOLUTION_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// File beside an environment that describes it. A process that uses the environment holds a lock on it.
pub(super) const RECORD_FILE: &str = "noted.json";

/// Maximum size of an archive in bytes.
const MAX_ARCHIVE_SIZE: u64 = 256 << 20;
/// Maximum unpacked size of all packages together in bytes.
const MAX_TOTAL_SIZE: u64 = 2 << 30;
/// Maximum number of packages that the progress message names.
const MAX_NAMED_PACKAGES: usize = 10;
/// Maximum number of concurrent downloads.
const MAX_CONCURRENT_DOWNLOADS: usize = 8;

/// A set of packages that is ready for use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpmEnvironment {
    /// The directory for a guest to see as `node_modules`. It is never modified.
    pub dir: PathBuf,
    /// The packages in it.
    pub tree: NpmTree,
    /// The packages that cannot be used in WebAssembly alone.
    pub native: Vec<NativePackage>,
}

/// Description of an environment, written beside it as its last file.
#[derive(Serialize, Deserialize)]
struct EnvironmentRecord {
    native: Vec<(String, Native)>,
}

/// Returns the environment for `specs`, and creates it if it does not exist.
///
/// The packages are those of `locked` if it is given, which must be for exactly these specs; otherwise those of a
/// cached resolution with the same settings; otherwise those of a new resolution with the current versions. The network
/// is not used if everything is in the store.
///
/// Requires a tokio runtime with time and I/O. The future is not `Send` and writes to disk on the thread that polls it:
/// run it on a thread of its own, with `Runtime::block_on`.
///
/// # Errors
/// See [`NpmError`]; after any of them the store has no incomplete entries.
pub fn npm_environment<'a>(
    specs: &'a [NpmSpec],
    locked: Option<&'a NpmTree>,
    settings: &'a NpmSettings<'_>,
    store: &'a NpmStore,
    progress: &'a dyn Progress,
) -> LocalBoxFuture<'a, Result<NpmEnvironment, NpmError>> {
    let environment = async move {
        let tree = match locked {
            Some(tree) => {
                tree.check()?;
                tree.check_specs(specs)?;
                tree.check_satisfies(specs)?;
                tree.clone()
            }
            None => cached_or_new_resolution(specs, settings, store).await?,
        };
        let dir = store.environment(&tree.digest());
        let environment = match read(&dir) {
            Some(record) => record,
            None => assemble(&tree, locked.is_some(), &dir, settings, store, progress).await?,
        };
        let native =
            environment.native.into_iter().map(|(package, native)| NativePackage { package, native }).collect();
        Ok(NpmEnvironment { dir: dir.join("node_modules"), tree, native })
    };
    timeout(settings, environment).boxed_local()
}

fn read(dir: &Path) -> Option<EnvironmentRecord> {
    serde_json::from_slice(&fs::read(dir.join(RECORD_FILE)).ok()?).ok()
}

/// Returns the cached resolution for the same specs and settings, or a new one.
async fn cached_or_new_resolution(
    specs: &[NpmSpec],
    settings: &NpmSettings<'_>,
    store: &NpmStore,
) -> Result<NpmTree, NpmError> {
    let query = format!("{}\n{}\n{}", Target::name(), settings.registries(), tree::requested(specs).join("\n"));
    let file = store.resolution(&query);
    let cached = || {
        let tree: NpmTree = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        (tree.check().is_ok() && tree.check_specs(specs).is_ok()).then_some(tree)
    };
    let age = fs::metadata(&file).and_then(|meta| meta.modified()).ok();
    let age = age.and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age < RESOLUTION_TTL)
        && let Some(tree) = cached()
    {
        return Ok(tree);
    }
    let client = Client::new(settings)?;
    if client.is_offline()
        && let Some(tree) = cached()
    {
        return Ok(tree);
    }
    match resolve(specs, settings, &client, store).await {
        Ok(tree) => {
            if let Ok(text) = serde_json::to_vec(&tree) {
                // A full disk is not an error: the cache is optional.
                let _ = store.write(&file, &text);
            }
            Ok(tree)
        }
        Err(error @ NpmError::Unreachable { .. }) => cached().ok_or(error),
        Err(error) => Err(error),
    }
}

/// Downloads every missing package and assembles the environment.
async fn assemble(
    tree: &NpmTree,
    locked: bool,
    dir: &Path,
    settings: &NpmSettings<'_>,
    store: &NpmStore,
    progress: &dyn Progress,
) -> Result<EnvironmentRecord, NpmError> {
    let _guard = store.acquire_shared_lock()?;
    let wanted: BTreeMap<_, _> = tree.packages.iter().map(|package| (&package.integrity, package)).collect();
    let mut missing: Vec<&NpmPackage> =
        wanted.into_values().filter(|package| store.package(&package.integrity).is_none()).collect();
    if !missing.is_empty() {
        let client = Client::new(settings)?;
        missing.sort_by_key(|package| (&package.name, &package.version));
        progress.started(&progress_line(&missing), None);
        let fetched = stream::iter(missing).map(|package| fetch(package, locked, settings, &client, store, progress));
        fetched.buffer_unordered(MAX_CONCURRENT_DOWNLOADS).try_collect::<()>().await?;
        progress.finished();
    }
    let staged = store.staged()?;
    let modules = staged.path().join("node_modules");
    fs::create_dir(&modules).map_err(NpmError::file(&modules))?;
    let (mut record, mut bytes) = (EnvironmentRecord { native: Vec::new() }, 0);
    // A parent's place precedes those of its children.
    for package in &tree.packages {
        let not_found = || io::Error::new(io::ErrorKind::NotFound, "it was removed by another process");
        let found = store.package(&package.integrity);
        let (files, properties) = found.ok_or_else(|| NpmError::File { path: dir.to_owned(), source: not_found() })?;
        // The lock is not trusted: it may list one package under the name of another.
        if properties.name != package.name.as_str() || properties.version != package.version {
            return Err(NpmTreeError::ContentMismatch {
                place: package.place.clone(),
                name: properties.name,
                version: properties.version,
            }
            .into());
        }
        bytes += properties.bytes;
        if bytes > MAX_TOTAL_SIZE {
            return Err(NpmError::TooMany { what: "bytes", allowed: MAX_TOTAL_SIZE });
        }
        let native = properties.native.or(package.system.then_some(Native::System));
        record.native.extend(native.map(|native| (format!("{}@{}", package.name, package.version), native)));
        link_tree(&files, &modules.join(&package.place))?;
    }
    record.native.sort();
    record.native.dedup();
    let text = serde_json::to_vec(&record).map_err(|error| NpmError::file(dir)(error.into()))?;
    fs::write(staged.path().join(RECORD_FILE), text).map_err(NpmError::file(dir))?;
    store.commit(staged, dir)?;
    Ok(record)
}

/// Formats the names of the packages to download as a line of limited length.
fn progress_line(missing: &[&NpmPackage]) -> String {
    let names: Vec<String> = missing
        .iter()
        .take(MAX_NAMED_PACKAGES)
        .map(|package| format!("{} {}", package.name, package.version))
        .collect();
    let more = missing.len().saturating_sub(MAX_NAMED_PACKAGES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("installing {}{more}", names.join(", "))
}

async fn fetch(
    package: &NpmPackage,
    locked: bool,
    settings: &NpmSettings<'_>,
    client: &Client<'_>,
    store: &NpmStore,
    progress: &dyn Progress,
) -> Result<(), NpmError> {
    let NpmPackage { name, version, integrity, url, .. } = package;
    let what = format!("{name}@{version}");
    let registry = settings.registry_for(name);
    let url = &match locked {
        false => url.clone(),
        // The lock comes with the program. It determines the content, but the user's own registry supplies the archive:
        // the recorded URL is informative only.
        true => {
            let packument = packument(name, settings, client, store).await?;
            let manifest = packument.versions.get(version).ok_or_else(|| NpmError::NoVersion {
                name: name.to_string(),
                wanted: version.clone(),
                latest: packument.tags.get("latest").cloned().unwrap_or_else(|| "unknown".to_owned()),
            })?;
            let (announced, url) = archive(name, version, manifest, settings)?;
            if announced != *integrity {
                return Err(NpmError::WrongIntegrity { package: what, expected: integrity.clone(), found: announced });
            }
            url
        }
    };
    let query = RegistryQuery { what: &what, registry, url, accept: "*/*", etag: None, max_size: MAX_ARCHIVE_SIZE };
    let body = match client.execute(&query).await? {
        RegistryResponse::Body(body, _) => body,
        RegistryResponse::NotModified | RegistryResponse::Nothing => {
            let detail = format!("no archive found at {}", redacted_url(url));
            return Err(NpmError::InvalidResponse { registry: redacted_url(registry), what, detail });
        }
    };
    progress.advanced(body.len() as u64);
    integrity.check(&body).map_err(|found| NpmError::WrongIntegrity {
        package: what.clone(),
        expected: integrity.clone(),
        found,
    })?;
    store.store_package(integrity, |into| {
        let summary =
            tarball::unpack(&UnpackLimits { bytes: 512 << 20, members: 50_000 }, &what, body.as_slice(), into);
        let summary = summary.map_err(|source| NpmError::Archive { package: what.clone(), source })?;
        Ok(PackageProperties {
            name: name.to_string(),
            version: version.clone(),
            bytes: summary.bytes,
            native: summary.native,
        })
    })
}

/// Copies a directory tree, with hard links where the disk supports them.
fn link_tree(from: &Path, to: &Path) -> Result<(), NpmError> {
    fs::create_dir_all(to).map_err(NpmError::file(to))?;
    for entry in fs::read_dir(from).map_err(NpmError::file(from))? {
        let entry = entry.map_err(NpmError::file(from))?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(NpmError::file(&old))?.is_dir() {
            link_tree(&old, &new)?;
        } else if let Err(error) = fs::hard_link(&old, &new) {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return Err(NpmError::File { path: new, source: error });
            }
            fs::copy(&old, &new).map_err(NpmError::file(&new))?;
        }
    }
    Ok(())
}

//! The container engines of this machine.

use std::path::PathBuf;
use std::sync::Arc;

use codebox_analysis::Analyzer;
use codebox_cli::{EngineImage, Failure, Leftover, Sweep, SweptPlaces};
use codebox_container::{
    ContainerBackend, ContainerError, Flavour, ImageTable, LocalImage, Place, Settings as ContainerSettings,
    StartKeeper, Surroundings, Swept, candidates,
};
use codebox_core::path::{Protected, Reach};
use codebox_core::{
    Backend as _, BackendError, HostPath, ImageName, ImagePattern, InstanceSpec, Isolation, Language, NameError,
    ResultKind, with_causes,
};
use codebox_files::Scratch;
use codebox_service::catalog::Progress;
use codebox_service::config::Settings;

use crate::places::Places;

/// Files in which systems keep their trusted certificate authorities, the most common first.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns a backend for each engine, the preferred one first. `keeper` starts the process that keeps containers ready;
/// without it, this process keeps them ready itself.
pub(crate) fn backends(
    places: &Places,
    settings: &Settings,
    scratch: &Arc<Scratch>,
    keeper: Option<StartKeeper>,
    analyzer: &Analyzer,
) -> Vec<ContainerBackend> {
    let allowed = |name: &ImageName| {
        let patterns = settings.images.allowed.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.allows(name)))
    };
    let shared = ContainerSettings {
        candidates: candidates(&surroundings()),
        images: ImageTable::default().with(settings.images.of.clone()).allowing(allowed),
        scratch: Arc::clone(scratch),
        folder: places.containers(),
        keeper,
        analyzer: analyzer.clone(),
        authorities: authorities(),
    };
    let mut flavours = Flavour::ALL;
    flavours.sort_by_key(|flavour| settings.engine.as_deref() != Some(flavour.as_str()));
    ContainerBackend::each(flavours, shared)
}

/// Returns the file of certificate authorities: the one that `SSL_CERT_FILE` names, or else the system's.
fn authorities() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let all = named.into_iter().chain(AUTHORITIES.map(PathBuf::from));
    all.filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file())
}

/// Returns the sockets of this machine's container engines as protected paths.
///
/// A directory that contains such a socket gives its reader full access to the engine, because connecting to a socket
/// is possible through a read-only mount.
pub(crate) fn sockets() -> Vec<Protected> {
    let places = candidates(&surroundings()).into_iter().filter_map(|candidate| match candidate.place {
        Place::Unix(path) => path.canonicalize().ok(),
        Place::Tcp(_) | Place::Unusable(_) => None,
    });
    let protected = |path: PathBuf| {
        let path = HostPath::native(&path).ok()?;
        Some(Protected { path, reach: Reach::Itself, what: "the socket of a container engine".to_owned() })
    };
    places.filter_map(protected).collect()
}

/// Reads the environment variables and directories from which the engines' sockets are derived.
fn surroundings() -> Surroundings {
    let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Surroundings {
        docker_host: text("DOCKER_HOST"),
        docker_context: text("DOCKER_CONTEXT"),
        docker_config: text("DOCKER_CONFIG").map(PathBuf::from),
        container_host: text("CONTAINER_HOST"),
        container_connection: text("CONTAINER_CONNECTION"),
        runtime_dir: text("XDG_RUNTIME_DIR").map(PathBuf::from),
        home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
    }
}

/// Pulls the image that a job starts from, if the engine does not have it.
pub(crate) async fn ensure_image(
    engine: &ContainerBackend,
    language: &Language,
    image: Option<&str>,
    progress: &dyn Progress,
) -> Result<(), BackendError> {
    let spec = InstanceSpec {
        language: language.clone(),
        grants: codebox_core::Grants::none(),
        limits: codebox_core::Limits::default(),
        image: image.map(str::to_owned),
        isolation: Isolation::Container,
        warm: None,
        layers: Vec::new(),
    };
    let failed = |error| engine.told(error);
    let name = engine.image_name(&spec).map_err(failed)?;
    if engine.has(&name).await.map_err(failed)? {
        return Ok(());
    }
    pull(engine, &name, progress).await
}

/// Pulls an image.
pub(crate) async fn pull(
    engine: &ContainerBackend,
    name: &ImageName,
    progress: &dyn Progress,
) -> Result<(), BackendError> {
    progress.note(&format!("{} fetches the image {name}", engine.id()));
    let mut before = None;
    let told = |done: u64, whole: Option<u64>| {
        let known = *before.get_or_insert_with(|| {
            progress.started(name.as_str(), whole);
            0
        });
        progress.advanced(done.saturating_sub(known));
        before = Some(done.max(known));
    };
    engine.pull(name, told).await.map_err(|error| engine.told(error))?;
    progress.finished();
    Ok(())
}

/// Runs a future of engine work to completion on a new current-thread executor.
pub(crate) fn block<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
    Ok(runtime.block_on(work))
}

/// Returns the images of an engine.
pub(crate) async fn images(engines: &[ContainerBackend], engine: &str) -> Result<Vec<EngineImage>, Failure> {
    let Some(engine) = engines.iter().find(|backend| backend.id().as_str() == engine) else { return Ok(Vec::new()) };
    let found = engine.images().await.map_err(|error| Failure::from(engine.told(error)))?;
    let of = |LocalImage { names, id, size }| EngineImage { names, id, size };
    Ok(found.into_iter().map(of).collect())
}

/// Pulls an image with the named engine, or with the first engine that answers.
pub(crate) async fn pull_named(
    engines: &[ContainerBackend],
    engine: Option<&str>,
    name: &str,
    allowed: Option<&[ImagePattern]>,
    progress: &dyn Progress,
) -> Result<String, Failure> {
    let name: ImageName = name.parse().map_err(|error: NameError| {
        Failure::new(ResultKind::InvalidRequest, format!("cannot fetch {:?}: it is no image's name", error.text))
            .with_fix(error.rule)
    })?;
    if allowed.is_some_and(|patterns| patterns.iter().all(|pattern| !pattern.allows(&name))) {
        let line = format!("cannot fetch {name}: the configuration does not allow it");
        return Err(Failure::new(ResultKind::Denied, line).with_fix("add it to images.allowed"));
    }
    let mut refused = None;
    for backend in engines.iter().filter(|backend| engine.is_none_or(|engine| backend.id().as_str() == engine)) {
        match backend.facts().await {
            Ok(_) => {
                pull(backend, &name, progress).await?;
                return Ok(backend.id().to_string());
            }
            Err(error) => refused = refused.or(Some(Failure::from(backend.told(error)))),
        }
    }
    Err(refused.unwrap_or_else(|| Failure::new(ResultKind::EngineUnavailable, "this build has no container engine")))
}

/// Finds the leftovers of killed processes in the engines that answer, and removes them if `how` says so. Also returns
/// the engines that should answer and do not.
pub(crate) async fn sweep(engines: &[ContainerBackend], how: Sweep) -> SweptPlaces {
    let swept = match how {
        Sweep::Remove => Swept::Away,
        Sweep::NameOnly => Swept::NamedOnly,
    };
    let told = |place: &str, left: Vec<codebox_container::Leftover>| {
        let place = place.to_owned();
        left.into_iter().map(move |left| {
            let codebox_container::Leftover { kind, name, kept } = left;
            Leftover { kind: kind.to_owned(), name, place: place.clone(), kept }
        })
    };
    // The mounts belong to this machine, regardless of the engine that they were made for.
    let mounts = engines.first().map(|engine| engine.sweep_mounts(swept)).unwrap_or_default();
    let mut found: Vec<Leftover> = told("this machine", mounts).collect();
    let mut unasked = Vec::new();
    for engine in engines {
        match engine.sweep(swept).await {
            Ok(containers) => found.extend(told(engine.id().as_str(), containers)),
            // An engine that does not exist has no leftovers.
            Err(ContainerError::NoEngine { silent: false, .. }) => {}
            Err(error) => unasked.push((engine.id().to_string(), with_causes(&error))),
        }
    }
    SweptPlaces { left: found, unasked }
}

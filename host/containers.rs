//! The engines of containers, as this process finds them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codebox_cli::Failure;
use codebox_container::{
    ContainerBackend, Flavour, ImageTable, Settings as ContainerSettings, Surroundings, candidates,
};
use codebox_core::{Backend as _, ImageName, InstanceSpec, Isolation, Language};
use codebox_files::Scratch;
use codebox_service::catalog::Progress;
use codebox_service::config::Settings;

use crate::places::Places;

/// Files in which systems keep the certificate authorities that they trust, the commonest first.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A backend for each engine, the preferred one first.
pub(crate) fn backends(places: &Places, settings: &Settings, scratch: &Arc<Scratch>) -> Vec<ContainerBackend> {
    let allowed = |name: &ImageName| {
        let patterns = settings.images.allowed.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.allows(name)))
    };
    let shared = ContainerSettings {
        candidates: candidates(&surroundings()),
        images: ImageTable::default().with(settings.images.of.clone()).allowing(allowed),
        scratch: Arc::clone(scratch),
        folder: places.cache.join("containers"),
        authorities: AUTHORITIES.iter().find_map(|path| Path::new(path).canonicalize().ok()),
    };
    let mut flavours = Flavour::ALL;
    flavours.sort_by_key(|flavour| settings.engine.as_deref() != Some(flavour.as_str()));
    flavours.map(|flavour| ContainerBackend::new(flavour, shared.clone())).into()
}

/// What of the environment tells where engines are.
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

/// Fetches the image that a job starts from, where the engine does not have it.
pub(crate) async fn ensure_image(
    engine: &ContainerBackend,
    language: &Language,
    image: Option<&str>,
    progress: &dyn Progress,
) -> Result<(), Failure> {
    let spec = InstanceSpec {
        language: language.clone(),
        grants: codebox_core::Grants::none(),
        limits: codebox_core::Limits::default(),
        image: image.map(str::to_owned),
        isolation: Isolation::Container,
    };
    let failed = |error| Failure::from(engine.told(error));
    let name = engine.image_name(&spec).map_err(failed)?;
    if engine.has(&name).await.map_err(failed)? {
        return Ok(());
    }
    pull(engine, &name, progress).await
}

/// Fetches an image.
pub(crate) async fn pull(engine: &ContainerBackend, name: &ImageName, progress: &dyn Progress) -> Result<(), Failure> {
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
    engine.pull(name, told).await.map_err(|error| Failure::from(engine.told(error)))?;
    progress.finished();
    Ok(())
}

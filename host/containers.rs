//! The container engines of this machine.

use std::path::PathBuf;
use std::sync::Arc;

use codebox_analysis::Analyzer;
use codebox_container::{
    ContainerBackend, EngineAddress, Flavour, HostEnvironment, ImageTable, Settings as ContainerSettings,
    StartPoolDaemon, candidates,
};
use codebox_core::path::{ProtectedDir, ProtectionScope};
use codebox_core::{HostPath, ImageName, Language, Languages};
use codebox_files::Scratch;
use codebox_service::config::Settings;

use crate::app_dirs::AppDirs;

/// Files in which systems keep their trusted certificate authorities, the most common first.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns a backend for each engine, the preferred one first, and one for that of the virtual machine of the user.
///
/// `start_pool_daemon` starts the process that keeps containers ready; without it, this process keeps them ready itself.
pub(crate) fn backends(
    places: &AppDirs,
    settings: &Settings,
    languages: &Languages,
    scratch: &Arc<Scratch>,
    start_pool_daemon: Option<StartPoolDaemon>,
    analyzer: &Analyzer,
) -> Vec<ContainerBackend> {
    let shared = container_settings(places, settings, languages, scratch, start_pool_daemon, analyzer);
    let mut flavours = Flavour::ALL;
    flavours.sort_by_key(|flavour| settings.engine.as_deref() != Some(flavour.as_str()));
    #[cfg(all(feature = "cli", target_os = "linux"))]
    let in_machine = {
        let machine = crate::virtual_machine::engine_machine(places, settings);
        machine.and_then(|machine| ContainerBackend::in_machine(machine, shared.clone()))
    };
    #[cfg(not(all(feature = "cli", target_os = "linux")))]
    let in_machine = None;
    // A virtual machine is the last place.
    ContainerBackend::create_all(flavours, shared).into_iter().chain(in_machine).collect()
}

fn container_settings(
    places: &AppDirs,
    settings: &Settings,
    languages: &Languages,
    scratch: &Arc<Scratch>,
    start_pool_daemon: Option<StartPoolDaemon>,
    analyzer: &Analyzer,
) -> ContainerSettings {
    let allowed = |name: &ImageName| {
        let patterns = settings.images.allowed.as_ref();
        patterns.is_none_or(|patterns| patterns.iter().any(|pattern| pattern.allows(name)))
    };
    // An image alone cannot run a language whose description is damaged or names no interpreter.
    let has_interpreter = |language: &Language| {
        *language == Language::Command || languages.described(language.clone()).spec().container.is_some()
    };
    let named = settings.images.of.clone().into_iter().filter(|(language, _)| has_interpreter(language));
    ContainerSettings {
        candidates: candidates(&host_environment()),
        images: ImageTable::of_languages(languages).with(named).allowing(allowed),
        scratch: Arc::clone(scratch),
        folder: places.containers(),
        start_pool_daemon,
        analyzer: analyzer.clone(),
        ca_bundle: ca_bundle(),
    }
}

/// Returns true if an engine of a kind may be available, as far as its addresses show.
#[cfg(feature = "cli")]
pub(crate) fn may_be_available(flavour: Flavour) -> bool {
    codebox_container::may_be_available(&candidates(&host_environment()), flavour)
}

/// Returns the file of certificate authorities: the one that `SSL_CERT_FILE` names, or else the system's.
fn ca_bundle() -> Option<PathBuf> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let all = named.into_iter().chain(AUTHORITIES.map(PathBuf::from));
    all.filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file())
}

/// Returns the sockets of this machine's container engines as protected paths.
///
/// A directory that contains such a socket gives its reader full access to the engine, because connecting to a socket
/// is possible through a read-only mount.
pub(crate) fn sockets() -> Vec<ProtectedDir> {
    let places = candidates(&host_environment()).into_iter().filter_map(|candidate| match candidate.place {
        EngineAddress::Unix(path) => path.canonicalize().ok(),
        EngineAddress::Tcp(_) | EngineAddress::Unusable(_) => None,
    });
    let protected = |path: PathBuf| {
        let path = HostPath::native(&path).ok()?;
        Some(ProtectedDir { path, scope: ProtectionScope::Itself, what: "the socket of a container engine".to_owned() })
    };
    places.filter_map(protected).collect()
}

/// Reads the environment variables and directories from which the engines' sockets are derived.
fn host_environment() -> HostEnvironment {
    let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    HostEnvironment {
        docker_host: text("DOCKER_HOST"),
        docker_context: text("DOCKER_CONTEXT"),
        docker_config: text("DOCKER_CONFIG").map(PathBuf::from),
        container_host: text("CONTAINER_HOST"),
        container_connection: text("CONTAINER_CONNECTION"),
        runtime_dir: text("XDG_RUNTIME_DIR").map(PathBuf::from),
        home: directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()),
    }
}

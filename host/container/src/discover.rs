//! Addresses at which an engine may listen, in the order in which the engines' own tools search.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::flavour::Flavour;

/// Environment variables and directories that determine the addresses. They are passed as values, so that this module
/// does not read the environment.
#[derive(Debug, Clone, Default)]
pub struct HostEnvironment {
    /// `DOCKER_HOST`.
    pub docker_host: Option<String>,
    /// `DOCKER_CONTEXT`.
    pub docker_context: Option<String>,
    /// `DOCKER_CONFIG`; `None` means `.docker` in the home directory.
    pub docker_config: Option<PathBuf>,
    /// `CONTAINER_HOST`.
    pub container_host: Option<String>,
    /// `CONTAINER_CONNECTION`.
    pub container_connection: Option<String>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// The home directory.
    pub home: Option<PathBuf>,
}

/// Address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineAddress {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A network address.
    Tcp(String),
    /// An address that codebox cannot use, with the reason.
    Unusable(String),
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => f.write_str(address),
            Self::Unusable(why) => f.write_str(why),
        }
    }
}

/// An address to try, and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The address.
    pub place: EngineAddress,
    /// Origin of the address: `DOCKER_HOST`, "the docker context work", "Colima".
    pub named_by: String,
    /// The user's choice of the address, and the engine for which it was made. An engine must answer at a chosen
    /// address.
    pub origin: AddressOrigin,
}

/// Kind of origin of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrigin {
    /// Chosen by the user, in a variable or a context of this engine's tool.
    ByUser(Flavour),
    /// Not chosen by the user: a common location of such sockets.
    WellKnown,
    /// The socket of an engine in a virtual machine, where it belongs to this user.
    InMachine {
        /// Number of the user.
        user: u32,
    },
}

/// Returns true if a socket exists at one of these addresses, or if one of them is a network address.
#[must_use]
pub fn may_be_available(candidates: &[Candidate], flavour: Flavour) -> bool {
    for candidate in candidates {
        match &candidate.place {
            EngineAddress::Unix(path) if std::fs::symlink_metadata(path).is_ok() => return true,
            EngineAddress::Tcp(_) => return true,
            // An address that the user has named excludes all others.
            EngineAddress::Unix(_) | EngineAddress::Unusable(_)
                if candidate.origin == AddressOrigin::ByUser(flavour) =>
            {
                return false;
            }
            EngineAddress::Unix(_) | EngineAddress::Unusable(_) => {}
        }
    }
    false
}

/// Returns every address at which an engine may listen. The first that answers as the requested engine is used.
#[must_use]
pub fn candidates(environment: &HostEnvironment) -> Vec<Candidate> {
    let mut found = Vec::new();
    let mut named = |text: &Option<String>, by: &str, flavour| {
        if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
            found.push(Candidate {
                place: place(text),
                named_by: by.to_owned(),
                origin: AddressOrigin::ByUser(flavour),
            });
        }
    };
    named(&environment.docker_host, "DOCKER_HOST", Flavour::Docker);
    named(&environment.container_host, "CONTAINER_HOST", Flavour::Podman);
    if environment.docker_host.is_none() {
        found.extend(docker_context(environment));
    }
    found.extend(podman_connection(environment));
    found.extend(well_known_sockets(environment).into_iter().map(|(path, name)| Candidate {
        place: EngineAddress::Unix(path),
        named_by: name.to_owned(),
        origin: AddressOrigin::WellKnown,
    }));
    let mut seen = Vec::new();
    found.retain(|candidate| {
        // An address that the user has chosen for two tools is kept for both.
        let fresh = match candidate.origin {
            AddressOrigin::ByUser(_) | AddressOrigin::InMachine { .. } => true,
            AddressOrigin::WellKnown => !seen.contains(&candidate.place),
        };
        seen.push(candidate.place.clone());
        fresh
    });
    found
}

/// Parses an address in the notation of the engines' tools.
fn place(text: &str) -> EngineAddress {
    match text.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => EngineAddress::Unix(path.into()),
        Some(("tcp" | "http", address)) => EngineAddress::Tcp(address.trim_end_matches('/').to_owned()),
        Some(("ssh", _)) => EngineAddress::Unusable("ssh is not supported".to_owned()),
        Some((scheme, _)) => EngineAddress::Unusable(format!("scheme {scheme} is not supported")),
        None if text.starts_with('/') => EngineAddress::Unix(text.into()),
        None => EngineAddress::Unusable(format!("invalid address {text:?}; use unix:///PATH or tcp://HOST:PORT")),
    }
}

/// Returns the common locations of sockets.
fn well_known_sockets(environment: &HostEnvironment) -> Vec<(PathBuf, &'static str)> {
    let mut found = Vec::new();
    if let Some(runtime) = &environment.runtime_dir {
        found.push((runtime.join("docker.sock"), "rootless Docker"));
        found.push((runtime.join("podman/podman.sock"), "rootless Podman"));
    }
    found.push(("/var/run/docker.sock".into(), "Docker"));
    found.push(("/run/podman/podman.sock".into(), "Podman"));
    if let Some(home) = &environment.home {
        let at = [
            (".docker/run/docker.sock", "Docker Desktop"),
            (".docker/desktop/docker.sock", "Docker Desktop"),
            (".orbstack/run/docker.sock", "OrbStack"),
            (".colima/default/docker.sock", "Colima"),
            (".config/colima/default/docker.sock", "Colima"),
            (".rd/docker.sock", "Rancher Desktop"),
            (".lima/docker/sock/docker.sock", "Lima"),
            (".lima/podman/sock/podman.sock", "Lima"),
            (".local/share/containers/podman/machine/podman.sock", "Podman machine"),
            (".local/share/containers/podman/machine/qemu/podman.sock", "Podman machine"),
        ];
        found.extend(at.map(|(path, name)| (home.join(path), name)));
    }
    found
}

/// Most bytes read from a tool's configuration file.
const MAX_CONFIG_SIZE: u64 = 1 << 20;

fn read_json(path: &Path) -> Option<Value> {
    let file = open(path).ok().filter(|file| file.metadata().is_ok_and(|meta| meta.is_file()))?;
    let mut text = Vec::new();
    // One byte above the maximum shows that the file is too large.
    file.take(MAX_CONFIG_SIZE + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= MAX_CONFIG_SIZE).then(|| serde_json::from_slice(&text).ok())?
}

/// Opens a file for reading, without waiting if it is a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    options.open(path)
}

/// Returns the address of Docker's current context, or `None` for the default context.
fn docker_context(environment: &HostEnvironment) -> Option<Candidate> {
    let folder = environment.docker_config.clone().or_else(|| Some(environment.home.as_ref()?.join(".docker")))?;
    let current = || read_json(&folder.join("config.json"))?.get("currentContext")?.as_str().map(str::to_owned);
    let name =
        environment.docker_context.clone().or_else(current).filter(|name| !name.is_empty() && name != "default")?;
    let hash: String = Sha256::digest(&name).iter().map(|byte| format!("{byte:02x}")).collect();
    let meta = read_json(&folder.join("contexts/meta").join(hash).join("meta.json"));
    let host = meta.as_ref().and_then(|meta| meta.pointer("/Endpoints/docker/Host")?.as_str());
    let place = host.map_or_else(|| EngineAddress::Unusable("address is missing".to_owned()), place);
    Some(Candidate {
        place,
        named_by: format!("the docker context {name}"),
        origin: AddressOrigin::ByUser(Flavour::Docker),
    })
}

/// Returns the address of Podman's default connection.
fn podman_connection(environment: &HostEnvironment) -> Option<Candidate> {
    let file = read_json(&environment.home.as_ref()?.join(".config/containers/podman-connections.json"))?;
    let connections = file.get("Connection")?;
    let name = environment.container_connection.as_deref().or_else(|| connections.get("Default")?.as_str())?;
    let uri = connections.get("Connections")?.get(name)?.get("URI")?.as_str()?;
    let origin = if environment.container_connection.is_some() {
        AddressOrigin::ByUser(Flavour::Podman)
    } else {
        AddressOrigin::WellKnown
    };
    Some(Candidate { place: place(uri), named_by: format!("the podman connection {name}"), origin })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn named(environment: &HostEnvironment) -> Vec<(String, EngineAddress)> {
        candidates(environment).into_iter().map(|candidate| (candidate.named_by, candidate.place)).collect()
    }

    #[test]
    fn prefers_addresses_chosen_by_user() {
        let environment = HostEnvironment {
            docker_host: Some("tcp://127.0.0.1:2375".into()),
            container_host: Some("ssh://core@host/run/podman.sock".into()),
            ..HostEnvironment::default()
        };
        let found = named(&environment);
        assert_eq!(found[0], ("DOCKER_HOST".into(), EngineAddress::Tcp("127.0.0.1:2375".into())));
        assert!(matches!(&found[1], (name, EngineAddress::Unusable(_)) if name == "CONTAINER_HOST"), "{found:?}");
        assert!(found.iter().any(|(_, place)| *place == EngineAddress::Unix("/run/podman/podman.sock".into())));
    }

    #[test]
    fn reads_docker_contexts_and_podman_connections() {
        let home = std::env::temp_dir().join(format!("codebox-discover-{}", std::process::id()));
        let hash: String = Sha256::digest("work").iter().map(|byte| format!("{byte:02x}")).collect();
        let meta = home.join(".docker/contexts/meta").join(hash);
        let podman = home.join(".config/containers");
        fs::create_dir_all(&meta).expect("can be created");
        fs::create_dir_all(&podman).expect("can be created");
        fs::write(home.join(".docker/config.json"), r#"{"currentContext":"work"}"#).expect("can be written");
        let text = r#"{"Name":"work","Endpoints":{"docker":{"Host":"unix:///a/b.sock"}}}"#;
        fs::write(meta.join("meta.json"), text).expect("can be written");
        let text = r#"{"Connection":{"Default":"m","Connections":{"m":{"URI":"unix:///c/d.sock"}}}}"#;
        fs::write(podman.join("podman-connections.json"), text).expect("can be written");
        let found = named(&HostEnvironment { home: Some(home.clone()), ..HostEnvironment::default() });
        fs::remove_dir_all(&home).expect("the directory is removed");
        assert_eq!(found[0], ("the docker context work".into(), EngineAddress::Unix("/a/b.sock".into())));
        assert_eq!(found[1], ("the podman connection m".into(), EngineAddress::Unix("/c/d.sock".into())));
    }

    #[test]
    fn reads_only_regular_files_of_limited_size() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("config.json");
        fs::write(&file, "{}").expect("a file");
        assert!(read_json(&file).is_some() && read_json(dir.path()).is_none());
        fs::write(&file, format!("{{}}{}", " ".repeat(1 << 20))).expect("a file");
        assert_eq!(read_json(&file), None);
        #[cfg(unix)]
        {
            let fifo = dir.path().join("fifo");
            rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).expect("a FIFO");
            assert_eq!(read_json(&fifo), None);
        }
    }

    #[test]
    fn parses_address_or_reports_reason() {
        assert_eq!(place("/x.sock"), EngineAddress::Unix("/x.sock".into()));
        for bad in ["npipe:////./pipe/docker_engine", "x", "unix://x"] {
            assert!(matches!(place(bad), EngineAddress::Unusable(_)), "{bad}");
        }
    }
}

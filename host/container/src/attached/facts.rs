//! Facts about a running container, from the engine's description.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bollard::models::{ContainerInspectResponse, HostConfig, MountPoint};
use codebox_core::path::DirGrant;
use codebox_core::{Access, ContainerPower, FoundPower, GuestPath, HostPath, RunningContainer};

use super::kernel;
use crate::engine::Engine;
use crate::error::one_line;
use crate::flavour::Flavour;

/// Sockets of engines at common locations.
const ENGINE_SOCKETS: [&str; 5] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
];

/// Detail of a container that sees all paths of the kernel.
pub(super) const NOT_HIDDEN: &str = "system paths of the kernel are not hidden";

/// Returns the detail of a container that has a namespace of this machine.
pub(super) fn own_namespace(name: &str) -> String {
    format!("the {name} namespace of this machine")
}

/// Returns the facts. `sockets` are those at which engines may listen, and `devices` the directories and devices that volumes show,
/// by the names of the volumes.
pub(super) fn of(
    engine: &Engine,
    found: ContainerInspectResponse,
    sockets: &[PathBuf],
    devices: &BTreeMap<String, String>,
) -> RunningContainer {
    let ContainerInspectResponse { id, name, image, config, host_config, mounts, state, .. } = found;
    let (config, host) = (config.unwrap_or_default(), host_config.unwrap_or_default());
    let mut powers = settings(&host, engine.facts.flavour);
    if engine.facts.flavour == Flavour::Podman && host.privileged != Some(true) {
        let pid = state.and_then(|state| state.pid).unwrap_or_default();
        powers.extend(kernel::powers(pid, id.as_deref().unwrap_or_default()));
    }
    let (mut dirs, mut other_mounts) = (Vec::new(), Vec::new());
    // The directories of a remote engine are those of another machine.
    let is_local = Path::new(&engine.facts.place).is_absolute();
    let guest = |path: &str| GuestPath::new(path).ok();
    let mut hidden: Vec<GuestPath> = host.tmpfs.iter().flatten().filter_map(|(path, _)| guest(path)).collect();
    for mut mount in mounts.unwrap_or_default() {
        if let Some(device) = mount.name.as_ref().and_then(|name| devices.get(name)) {
            // A volume can be a bind mount of any directory.
            mount.source = Some(device.clone());
            powers.extend(socket(&MountPoint { typ: Some("bind".to_owned()), ..mount.clone() }, sockets));
        }
        powers.extend(socket(&mount, sockets));
        match dir(&mount).filter(|_| is_local) {
            Some(dir) => dirs.push(dir),
            None => {
                hidden.extend(mount.destination.as_deref().and_then(guest));
                other_mounts.extend(described(&mount));
            }
        }
    }
    powers.sort();
    powers.dedup();
    let cwd = config.working_dir.filter(|dir| !dir.is_empty()).and_then(|dir| GuestPath::new(dir).ok());
    RunningContainer {
        backend: engine.facts.flavour.id(),
        id: id.unwrap_or_default(),
        name: name.unwrap_or_default().trim_start_matches('/').to_owned(),
        image: config.image.unwrap_or_default(),
        image_digest: image,
        cwd: cwd.unwrap_or_else(GuestPath::root),
        dirs,
        other_mounts,
        hidden,
        network: host.network_mode.unwrap_or_else(|| "of the engine's choice".to_owned()),
        powers,
    }
}

/// Returns the powers that settings give.
fn settings(host: &HostConfig, flavour: Flavour) -> Vec<FoundPower> {
    let mut powers = Vec::new();
    let mut add = |power, detail: String| powers.push(FoundPower::new(power, one_line(&detail)));
    if host.privileged == Some(true) {
        add(ContainerPower::Privileged, "it is privileged".to_owned());
    }
    for capability in host.cap_add.iter().flatten() {
        add(ContainerPower::Capabilities, format!("capability {capability}"));
    }
    for option in host.security_opt.iter().flatten() {
        let strengthens = option.starts_with("no-new-privileges") && !option.ends_with("false");
        // The dev container program always sets it for Podman, and it matters on SELinux only.
        let is_usual = flavour == Flavour::Podman && option == "label=disable";
        if !strengthens && !is_usual {
            add(ContainerPower::SecurityOptions, format!("security option {option}"));
        }
    }
    for device in host.devices.iter().flatten() {
        add(ContainerPower::Devices, format!("device {}", device.path_on_host.as_deref().unwrap_or("without a path")));
    }
    for rule in host.device_cgroup_rules.iter().flatten() {
        add(ContainerPower::Devices, format!("device rule {rule}"));
    }
    if host.device_requests.iter().flatten().next().is_some() {
        add(ContainerPower::Devices, "devices of a driver, such as GPUs".to_owned());
    }
    // Docker lists the paths that it hides or makes read-only, unless the container has none of them.
    let is_bare = |paths: &Option<Vec<String>>| paths.as_ref().is_some_and(Vec::is_empty);
    if flavour == Flavour::Docker && (is_bare(&host.masked_paths) || is_bare(&host.readonly_paths)) {
        add(ContainerPower::SecurityOptions, NOT_HIDDEN.to_owned());
    }
    let namespaces = [
        ("network", &host.network_mode),
        ("process", &host.pid_mode),
        ("IPC", &host.ipc_mode),
        ("host name", &host.uts_mode),
        ("user", &host.userns_mode),
    ];
    for (name, mode) in namespaces {
        let mode = mode.as_deref().unwrap_or_default();
        if mode == "host" {
            add(ContainerPower::HostNamespaces, own_namespace(name));
        } else if mode.starts_with("container:") || mode.starts_with("ns:") {
            add(ContainerPower::HostNamespaces, format!("the {name} namespace {mode}"));
        }
    }
    for port in host.port_bindings.iter().flatten().filter(|(_, to)| to.as_ref().is_some_and(|to| !to.is_empty())) {
        add(ContainerPower::Ports, format!("port {}", port.0));
    }
    if host.publish_all_ports == Some(true) {
        add(ContainerPower::Ports, "all ports".to_owned());
    }
    powers
}

/// Returns the mount as a directory of this machine; `None` if it is none.
fn dir(mount: &MountPoint) -> Option<DirGrant> {
    if mount.typ.as_deref() != Some("bind") {
        return None;
    }
    let source = Path::new(mount.source.as_deref()?);
    // The paths of an engine in a virtual machine need not exist here.
    if !source.is_dir() {
        return None;
    }
    Some(DirGrant {
        host: HostPath::native(source).ok()?,
        guest: GuestPath::new(mount.destination.as_deref()?).ok()?,
        access: if mount.rw == Some(true) { Access::ReadWrite } else { Access::ReadOnly },
    })
}

/// Describes a mount that is no directory of this machine. A temporary file system is no power.
fn described(mount: &MountPoint) -> Option<String> {
    let kind = mount.typ.as_deref().unwrap_or_default();
    let at = mount.destination.as_deref().unwrap_or_default();
    let text = match (kind, &mount.name, &mount.source) {
        ("tmpfs", ..) => return None,
        ("volume", Some(name), Some(source)) => format!("volume {name} ({source}) at {at}"),
        (_, _, Some(source)) => format!("{source} at {at}"),
        _ => format!("{kind} at {at}"),
    };
    Some(one_line(&text))
}

/// Returns the power of a mount that contains a socket.
fn socket(mount: &MountPoint, sockets: &[PathBuf]) -> Option<FoundPower> {
    let source = Path::new(mount.source.as_deref().filter(|_| mount.typ.as_deref() == Some("bind"))?);
    let engine_sockets = ENGINE_SOCKETS.iter().map(Path::new).chain(sockets.iter().map(PathBuf::as_path));
    let is_inside = |socket: &Path| {
        let real = socket.canonicalize();
        socket.starts_with(source) || real.is_ok_and(|real| real.starts_with(source))
    };
    let found = engine_sockets.into_iter().find(|socket| is_inside(socket));
    let shown = match found {
        Some(socket) => format!("{}, by which programs control the engine", socket.display()),
        None if is_socket(source) => source.display().to_string(),
        None => return None,
    };
    Some(FoundPower::new(ContainerPower::Sockets, one_line(&shown)))
}

#[cfg(unix)]
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_socket(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(host: &HostConfig, flavour: Flavour) -> Vec<ContainerPower> {
        settings(host, flavour).into_iter().map(|found| found.power).collect()
    }

    #[test]
    fn finds_powers_of_settings() {
        assert_eq!(names(&HostConfig::default(), Flavour::Docker), []);
        let text = |text: &str| Some(text.to_owned());
        let host = HostConfig { network_mode: text("bridge"), ipc_mode: text("private"), ..HostConfig::default() };
        assert_eq!(names(&host, Flavour::Docker), []);
        let host = HostConfig {
            privileged: Some(true),
            cap_add: Some(vec!["SYS_ADMIN".to_owned()]),
            pid_mode: text("host"),
            network_mode: text("container:abc"),
            ..HostConfig::default()
        };
        use ContainerPower::{Capabilities, HostNamespaces, Privileged};
        assert_eq!(names(&host, Flavour::Docker), [Privileged, Capabilities, HostNamespaces, HostNamespaces]);
        let of = |option: &str| HostConfig { security_opt: Some(vec![option.to_owned()]), ..HostConfig::default() };
        for (option, flavour, count) in [
            ("seccomp=unconfined", Flavour::Docker, 1),
            ("label=disable", Flavour::Docker, 1),
            ("label=disable", Flavour::Podman, 0),
            ("no-new-privileges:true", Flavour::Docker, 0),
            ("no-new-privileges", Flavour::Docker, 0),
            ("no-new-privileges:false", Flavour::Docker, 1),
        ] {
            assert_eq!(names(&of(option), flavour).len(), count, "{option}");
        }
    }

    #[test]
    fn finds_sockets_in_mounts() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("engine.sock");
        let bind = |source: &Path| MountPoint {
            typ: Some("bind".to_owned()),
            source: Some(source.display().to_string()),
            destination: Some("/x".to_owned()),
            ..MountPoint::default()
        };
        assert!(socket(&bind("/var/run/docker.sock".as_ref()), &[]).is_some());
        assert!(socket(&bind("/var/run".as_ref()), &[]).is_some());
        assert!(socket(&bind("/".as_ref()), &[]).is_some());
        assert!(socket(&bind(dir.path()), &[]).is_none());
        assert!(socket(&bind(dir.path()), std::slice::from_ref(&own)).is_some());
        #[cfg(unix)]
        {
            let _listener = std::os::unix::net::UnixListener::bind(&own).expect("a socket");
            assert!(socket(&bind(&own), &[]).is_some());
        }
    }
}

//! Powers of a running container that the engine's description does not have, from the kernel.
//!
//! Podman describes `--ipc=host` as `shareable`, and does not describe `unmask`.

use std::fs;
use std::path::Path;

use codebox_core::{ContainerPower, FoundPower};

/// Namespaces by their names in `/proc`.
const NAMESPACES: [(&str, &str); 4] = [("net", "network"), ("pid", "process"), ("ipc", "IPC"), ("uts", "host name")];

/// Paths that all versions of Podman hide or make read-only with mounts, if the kernel has them.
const HIDDEN: [&str; 11] = [
    "/proc/acpi",
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/kcore",
    "/proc/keys",
    "/proc/scsi",
    "/proc/sys",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/sys/firmware",
];

/// Returns the powers of the container with this first process; none if that is a process of another machine.
pub(super) fn powers(pid: i64, id: &str) -> Vec<FoundPower> {
    let process = Path::new("/proc").join(pid.to_string());
    let is_of_container = fs::read_to_string(process.join("cgroup")).is_ok_and(|groups| groups.contains(id));
    if id.is_empty() || !is_of_container {
        return Vec::new();
    }
    let is_own = |name: &&(&str, &str)| {
        let of = |process: &Path| fs::read_link(process.join("ns").join(name.0)).ok();
        of(&process).is_some_and(|namespace| of(Path::new("/proc/self")) == Some(namespace))
    };
    let mut powers: Vec<FoundPower> = NAMESPACES
        .iter()
        .filter(is_own)
        .map(|(_, name)| FoundPower::new(ContainerPower::HostNamespaces, super::facts::own_namespace(name)))
        .collect();
    let mounts = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let has_mount = |path: &str| mounts.lines().any(|line| line.split(' ').nth(4) == Some(path));
    if !mounts.is_empty() && HIDDEN.iter().any(|path| Path::new(path).exists() && !has_mount(path)) {
        powers.push(FoundPower::new(ContainerPower::SecurityOptions, super::facts::NOT_HIDDEN.to_owned()));
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_processes_are_no_containers() {
        assert_eq!(powers(i64::from(std::process::id()), &"0123456789abcdef".repeat(4)), []);
        assert_eq!(powers(i64::from(std::process::id()), ""), []);
        assert_eq!(powers(-1, "/"), []);
    }
}

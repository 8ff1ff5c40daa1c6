//! Facts that an engine reports about itself.

use bollard::Docker;
use bollard::models::{SystemInfo, SystemVersion};
use serde::{Deserialize, Serialize};

use crate::discover::Candidate;
use crate::flavour::Flavour;

/// The properties of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFacts {
    /// The kind of engine.
    pub flavour: Flavour,
    /// The version of the engine.
    pub version: String,
    /// The version of its API.
    pub api: String,
    /// The OCI runtime that creates its containers, with the version if the engine reports it.
    pub runtime: String,
    /// The version of the kernel's cgroups, 1 or 2.
    pub cgroups: u8,
    /// True if the engine runs without root.
    pub rootless: bool,
    /// True if a container has its own cgroups, in which its usage is counted and limited.
    pub own_groups: bool,
    /// True if containers have a seccomp filter by default.
    pub seccomp: bool,
    /// True if swap is counted with memory.
    pub counts_swap: bool,
    /// True if memory can be limited.
    pub limits_memory: bool,
    /// True if the number of processes can be limited.
    pub limits_processes: bool,
    /// True if it can limit the processors of a container.
    pub limits_cpus: bool,
    /// The number of processors of the engine's machine.
    pub processors: i64,
    /// The architecture of the engine's machine.
    pub architecture: String,
    /// The address of the engine.
    pub place: String,
    /// The origin of the address.
    pub named_by: String,
}

/// A known weakness of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// The weakness.
    pub what: String,
    /// The action that helps.
    pub fix: String,
}

impl EngineFacts {
    /// Queries an engine for its facts.
    pub(crate) async fn query(
        client: &Docker,
        candidate: &Candidate,
        listener: Option<u32>,
    ) -> Result<Self, bollard::errors::Error> {
        let (version, info) = futures_util::try_join!(client.version(), client.info())?;
        Ok(Self::of(version, info, candidate, listener))
    }

    /// Derives the facts from the engine's answers and from the user whose process listens at the socket, if known.
    fn of(version: SystemVersion, info: SystemInfo, candidate: &Candidate, listener: Option<u32>) -> Self {
        let components = version.components.unwrap_or_default();
        let is_podman = components.iter().any(|part| part.name.contains("Podman"));
        let options = info.security_options.unwrap_or_default();
        let has =
            |name: &str| options.iter().any(|option| option.split(',').any(|part| part == format!("name={name}")));
        // A filter that the engine was configured to leave out is still listed.
        let has_filter = options.iter().any(|option| {
            let mut parts = option.split(',');
            parts.clone().any(|part| part == "name=seccomp") && !parts.any(|part| part == "profile=unconfined")
        });
        let runtime_name = info.default_runtime.unwrap_or_default();
        let runtime = components.iter().find(|part| part.name == "runc" || part.name == "crun");
        let runtime = match runtime {
            Some(part) => format!("{} {}", part.name, part.version),
            None => runtime_name.rsplit('/').next().unwrap_or(&runtime_name).to_owned(),
        };
        // Podman does not report this through the Docker API. The process behind its socket is the engine itself.
        let rootless = has("rootless") || (is_podman && listener.is_some_and(|uid| uid != 0));
        let cgroups = match info.cgroup_version.map(|version| version.to_string()).as_deref() {
            Some("2") => 2,
            _ => 1,
        };
        // Cgroups of version 1 cannot be delegated to a user, so rootless engines create none, whatever limits they
        // report.
        let own_groups = !(rootless && cgroups == 1);
        Self {
            flavour: if is_podman { Flavour::Podman } else { Flavour::Docker },
            version: version.version.unwrap_or_default(),
            api: version.api_version.unwrap_or_default(),
            runtime,
            cgroups,
            rootless,
            own_groups,
            seccomp: has_filter,
            counts_swap: info.swap_limit.unwrap_or(false),
            limits_memory: own_groups && info.memory_limit.unwrap_or(true),
            limits_processes: own_groups && info.pids_limit.unwrap_or(true),
            limits_cpus: own_groups && info.cpu_cfs_quota.unwrap_or(true),
            processors: info.ncpu.unwrap_or(1).max(1),
            architecture: info.architecture.unwrap_or_default(),
            place: candidate.place.to_string(),
            named_by: candidate.named_by.clone(),
        }
    }

    /// Returns the facts about the engine in the image of virtual machines, before one runs.
    pub(crate) fn of_machine() -> Self {
        Self {
            flavour: Flavour::Podman,
            version: String::new(),
            api: String::new(),
            runtime: "crun".to_owned(),
            cgroups: 2,
            rootless: true,
            own_groups: true,
            seccomp: true,
            counts_swap: true,
            limits_memory: true,
            limits_processes: true,
            limits_cpus: true,
            processors: 1,
            architecture: std::env::consts::ARCH.to_owned(),
            place: String::new(),
            named_by: String::new(),
        }
    }

    /// Returns the engine in one phrase, for reports: `podman 4.3.1 (runc, cgroups v1, rootful)`.
    #[must_use]
    pub fn summary(&self) -> String {
        let Self { flavour, version, runtime, cgroups, .. } = self;
        let root = if self.rootless { "rootless" } else { "rootful" };
        format!("{flavour} {version} ({runtime}, cgroups v{cgroups}, {root})")
    }

    /// Returns the known weaknesses of the engine. Versions are judged by their numbers alone; a distribution may have
    /// backported a fix.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<Weakness> {
        let mut found = Vec::new();
        let mut weak = |what: &str, fix: &str| found.push(Weakness { what: what.to_owned(), fix: fix.to_owned() });
        if self.flavour == Flavour::Docker && is_older(&self.version, &[29, 5, 1]) {
            weak(
                "older than 29.5.1: compressed archives are unpacked by the image's own programs (CVE-2026-41567); codebox sends none",
                "update Docker to 29.5.1 or later",
            );
        }
        if let Some(version) = self.runtime.strip_prefix("runc ") {
            if is_older(version, &[1, 1, 12]) {
                weak(
                    "runc is older than 1.1.12 (CVE-2024-21626) unless your distribution backported the fix",
                    "update runc",
                );
            } else if is_weak_runc(version) {
                weak(
                    "runc is older than 1.2.8, 1.3.3 or 1.4.0 (mounts of 2025: CVE-2025-31133, -52565, -52881) unless the fix is backported",
                    "update runc",
                );
            }
        }
        if !self.own_groups {
            weak(
                "cannot limit memory, processes and CPU time: rootless with cgroups v1",
                "use a rootful engine, or boot with cgroups v2 (systemd.unified_cgroup_hierarchy=1)",
            );
        }
        if !self.seccomp {
            weak("containers run without a system call filter", "enable seccomp in the engine's configuration");
        }
        found
    }
}

/// Returns true if a version of runc has the vulnerabilities that were fixed in 1.2.8, 1.3.3 and 1.4.0-rc.3.
fn is_weak_runc(version: &str) -> bool {
    let candidate = version.strip_prefix("1.4.0-rc").map(|rest| rest.trim_start_matches(['.', '-']));
    is_older(version, &[1, 2, 8])
        || (is_older(version, &[1, 3, 3]) && !is_older(version, &[1, 3, 0]))
        || candidate.is_some_and(|candidate| is_older(candidate, &[3]))
}

/// Returns true if a version is lower than another. A part that is not a number ends the comparison with `false`.
fn is_older(version: &str, than: &[u64]) -> bool {
    let numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u64>);
    for (have, want) in numbers.zip(than) {
        match have {
            Ok(have) if have == *want => {}
            Ok(have) => return have < *want,
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_rootless_podman_by_its_socket_owner() {
        let podman = || {
            let part = |name: &str| bollard::models::SystemVersionComponents {
                name: name.to_owned(),
                version: "4.3.1".to_owned(),
                details: None,
            };
            SystemVersion { components: Some(vec![part("Podman Engine")]), ..SystemVersion::default() }
        };
        let info = |cgroups| SystemInfo {
            cgroup_version: Some(cgroups),
            memory_limit: Some(true),
            pids_limit: Some(true),
            ..SystemInfo::default()
        };
        let candidate = crate::discover::Candidate {
            place: crate::discover::EngineAddress::Unix("/x".into()),
            named_by: "a test".to_owned(),
            origin: crate::discover::AddressOrigin::WellKnown,
        };
        use bollard::models::SystemInfoCgroupVersionEnum::{_1, _2};
        for (listener, cgroups, rootless, held) in [
            (Some(0), _1, false, true),
            (Some(1000), _1, true, false),
            (Some(1000), _2, true, true),
            (None, _2, false, true),
        ] {
            let facts = EngineFacts::of(podman(), info(cgroups), &candidate, listener);
            assert_eq!(facts.flavour, Flavour::Podman);
            assert_eq!((facts.rootless, facts.limits_memory, facts.own_groups), (rootless, held, held), "{listener:?}");
        }
    }

    #[test]
    fn detects_unconfined_seccomp() {
        let candidate = crate::discover::Candidate {
            place: crate::discover::EngineAddress::Unix("/x".into()),
            named_by: "a test".to_owned(),
            origin: crate::discover::AddressOrigin::WellKnown,
        };
        for (options, held) in [
            (&["name=seccomp,profile=builtin"][..], true),
            (&["name=apparmor", "name=seccomp,profile=/etc/own.json"], true),
            (&["name=seccomp,profile=unconfined"], false),
            (&["name=apparmor"], false),
        ] {
            let options = options.iter().map(|&option| option.to_owned()).collect();
            let info = SystemInfo { security_options: Some(options), ..SystemInfo::default() };
            let facts = EngineFacts::of(SystemVersion::default(), info, &candidate, None);
            assert_eq!(facts.seccomp, held, "{facts:?}");
            let reported =
                facts.weaknesses().iter().any(|weakness| weakness.what.contains("without a system call filter"));
            assert_eq!(reported, !held);
        }
    }

    #[test]
    fn recognizes_vulnerable_runc_versions() {
        for weak in ["1.1.13", "1.2.7", "1.3.0", "1.3.0-rc.1", "1.3.1", "1.3.2", "1.4.0-rc.1", "1.4.0-rc.2"] {
            assert!(is_weak_runc(weak), "{weak}");
        }
        for mended in ["1.2.8", "1.2.9", "1.3.3", "1.3.4", "1.4.0-rc.3", "1.4.0", "1.4.1", "1.10.0"] {
            assert!(!is_weak_runc(mended), "{mended}");
        }
    }

    #[test]
    fn compares_versions_numerically() {
        for (version, than, expected) in [
            ("20.10.24+dfsg1", &[29, 5, 1][..], true),
            ("29.5.1", &[29, 5, 1], false),
            ("29.10.0", &[29, 5, 1], false),
            ("1.1.5+ds1", &[1, 1, 12], true),
            ("", &[1], false),
        ] {
            assert_eq!(is_older(version, than), expected, "{version}");
        }
    }
}

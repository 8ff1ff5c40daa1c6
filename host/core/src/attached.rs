//! Running containers that codebox has not made, in which jobs can run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::backend::{BackendError, BoxFuture};
use crate::backend_id::BackendId;
use crate::limits::EnforcementLevel;
use crate::limits::LimitKind;
use crate::name::NameError;
use crate::path::{DirGrant, GuestPath};
use crate::text_form::serialize_as_text;

/// Power of a container over the machine that a plain container does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerPower {
    /// All capabilities and devices, without the engine's filters.
    Privileged,
    /// Capabilities in addition to those that the engine gives by default.
    Capabilities,
    /// Weaker filters of the kernel, such as no seccomp profile.
    SecurityOptions,
    /// Devices of the machine.
    Devices,
    /// Namespaces of the machine: its network, its processes or its shared memory.
    HostNamespaces,
    /// Directories of the machine, or volumes, other than the workspace.
    Mounts,
    /// Sockets of the machine, such as that of the engine.
    Sockets,
    /// Ports of the machine.
    Ports,
    /// Further containers, which Compose starts and codebox does not check.
    Compose,
    /// Arguments of the engine whose effect codebox does not know.
    EngineArguments,
    /// Commands that run on the machine itself.
    HostCommands,
}

impl ContainerPower {
    /// All powers.
    pub const ALL: [Self; 11] = [
        Self::Privileged,
        Self::Capabilities,
        Self::SecurityOptions,
        Self::Devices,
        Self::HostNamespaces,
        Self::Mounts,
        Self::Sockets,
        Self::Ports,
        Self::Compose,
        Self::EngineArguments,
        Self::HostCommands,
    ];

    /// Returns the name in configuration files and on the command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Capabilities => "capabilities",
            Self::SecurityOptions => "security-options",
            Self::Devices => "devices",
            Self::HostNamespaces => "host-namespaces",
            Self::Mounts => "mounts",
            Self::Sockets => "sockets",
            Self::Ports => "ports",
            Self::Compose => "compose",
            Self::EngineArguments => "engine-arguments",
            Self::HostCommands => "host-commands",
        }
    }
}

impl fmt::Display for ContainerPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ContainerPower {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let rule = "use privileged, capabilities, security-options, devices, host-namespaces, mounts, sockets, ports, \
            compose, engine-arguments or host-commands";
        let found = Self::ALL.into_iter().find(|power| power.as_str() == text);
        found.ok_or_else(|| NameError::new("power of a container", text, rule))
    }
}

serialize_as_text!(ContainerPower);

/// Power of a container, with the setting that gives it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FoundPower {
    /// The power.
    pub power: ContainerPower,
    /// Setting of the container, in one line.
    pub detail: String,
}

impl FoundPower {
    /// Creates a power with its setting.
    pub fn new(power: ContainerPower, detail: impl Into<String>) -> Self {
        Self { power, detail: detail.into() }
    }
}

impl fmt::Display for FoundPower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.power, self.detail)
    }
}

/// Running container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningContainer {
    /// Backend of its engine.
    pub backend: BackendId,
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Name of its image.
    pub image: String,
    /// Digest of its image.
    pub image_digest: Option<String>,
    /// Working directory of its programs.
    pub cwd: GuestPath,
    /// Directories of this machine that are mounted into it.
    pub dirs: Vec<DirGrant>,
    /// Other mounts, such as volumes, each in one line.
    pub other_mounts: Vec<String>,
    /// Places of other mounts, which can hide files of the directories.
    pub hidden: Vec<GuestPath>,
    /// Network of the container, as the engine names it.
    pub network: String,
    /// Powers over the machine, other than [`Mounts`](ContainerPower::Mounts).
    pub powers: Vec<FoundPower>,
}

/// Container in which a job runs, although codebox has not made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The container.
    pub container: RunningContainer,
    /// User of the job, by name or number; `None` for that of the container.
    pub user: Option<String>,
    /// Working directory of the job; `None` for that of the container.
    pub cwd: Option<GuestPath>,
    /// Variables in addition to those of the container.
    pub env: BTreeMap<String, String>,
    /// Description for reports, such as `dev container of /home/me/project`.
    pub origin: String,
}

impl Attachment {
    /// Returns the working directory of the job.
    #[must_use]
    pub fn directory(&self) -> &GuestPath {
        self.cwd.as_ref().unwrap_or(&self.container.cwd)
    }
}

/// Backend feature: jobs in running containers.
pub trait ContainerHost: Send + Sync {
    /// Returns facts about a running container, given by its id, the beginning of its id, or its name.
    ///
    /// # Errors
    /// Returns an error if there is none, if it does not run, or if codebox itself has made it.
    fn inspect<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RunningContainer, BackendError>>;

    /// Returns how well each limit is enforced in such containers.
    fn limits(&self) -> BTreeMap<LimitKind, EnforcementLevel>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_names() {
        for power in ContainerPower::ALL {
            assert_eq!(power.as_str().parse(), Ok(power));
        }
        let rule = "root".parse::<ContainerPower>().expect_err("no power").to_string();
        assert!(ContainerPower::ALL.iter().all(|power| rule.contains(power.as_str())), "{rule}");
    }
}

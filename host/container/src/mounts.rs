//! What of the host a container shows where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bollard::models::{Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType};
use codebox_core::path::settle;
use codebox_core::{Access, DirGrant, GuestPath, LimitKind};
use codebox_files::ProgramFile;

use crate::caller::{JobUser, Owners};
use crate::engine::Flavour;
use crate::error::ContainerError;
#[cfg(target_os = "linux")]
use crate::owners::{Mounted, Swap};

/// Where a program that is in no granted directory is put when /work is the user's.
pub(crate) const PROGRAM_DIR: &str = "/run/codebox";

/// The places of a job's own directories.
pub(crate) const PRIVATE_PLACES: [&str; 2] = ["/work", "/tmp"];

/// A file or directory of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub host: PathBuf,
    pub guest: String,
    pub access: Access,
}

impl Bind {
    /// As Podman takes it with options of a mount: no set-user-id programs, no devices. `None` where it cannot be said so.
    ///
    /// The interface that both engines have knows no such options, and Docker has no other. The text falls apart in a path
    /// with a colon; those of codebox's own directories have none, unless the home's has.
    pub(crate) fn with_options(&self, flavour: Flavour) -> Option<String> {
        let is_private = self.access == Access::ReadWrite && PRIVATE_PLACES.contains(&self.guest.as_str());
        let host =
            self.host.to_str().filter(|host| !host.contains([':', ',', '"']) && !host.contains(char::is_control))?;
        let guest = &self.guest;
        (flavour == Flavour::Podman && is_private).then(|| format!("{host}:{guest}:rw,nosuid,nodev,rprivate,bind"))
    }

    /// As the engines take it: never as a text of parts, which a name with a colon would fall apart in.
    ///
    /// Podman writes what it is given into a text of options all the same, in which a comma begins the next one.
    pub(crate) fn lower(&self, flavour: Flavour) -> Result<Mount, ContainerError> {
        let is_odd = |c: char| matches!(c, ',' | '"') || c.is_control();
        if flavour == Flavour::Podman && (self.guest.contains(is_odd) || self.host.to_string_lossy().contains(is_odd)) {
            let why = "Podman takes no path with a comma, a quote or a control character; rename it, or use docker";
            let subject = format!("{} at {}", self.host.display(), self.guest);
            return Err(ContainerError::Input { subject, why: why.to_owned() });
        }
        let not_text = || ContainerError::Grant { path: self.host.clone(), why: "its path is not UTF-8".to_owned() };
        Ok(Mount {
            typ: Some(MountType::BIND),
            source: Some(self.host.to_str().ok_or_else(not_text)?.to_owned()),
            target: Some(self.guest.clone()),
            read_only: Some(self.access == Access::ReadOnly),
            bind_options: Some(MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                // What is mounted below it on the host is not shown.
                non_recursive: Some(true),
                ..MountBindOptions::default()
            }),
            ..Mount::default()
        })
    }
}

/// The granted directories as binds, and what keeps them so.
#[derive(Default)]
pub(crate) struct Granted {
    pub binds: Vec<Bind>,
    #[cfg(target_os = "linux")]
    mounted: Vec<Mounted>,
}

impl Granted {
    /// Makes granted directories ready for the job's user; `points` is where mounts may be made, and `name` a prefix that
    /// nobody else uses there.
    pub(crate) fn new(
        dirs: &[DirGrant],
        user: &JobUser,
        (points, name): (&Path, &str),
        agent: &ProgramFile,
    ) -> Result<Self, ContainerError> {
        let settled = settle(dirs)
            .map_err(|error| ContainerError::Input { subject: "grants".to_owned(), why: error.to_string() })?;
        let mut granted = Self::default();
        if settled.is_empty() {
            return Ok(granted);
        }
        #[cfg(target_os = "linux")]
        if user.owners == Owners::Mapped {
            return granted.mapped(settled, user, (points, name), agent);
        }
        let _ = (user, points, name, agent, Owners::Mapped);
        granted.binds.extend(settled.into_iter().map(|grant| Bind {
            host: grant.host.to_path_buf(),
            guest: grant.guest.as_str().to_owned(),
            access: grant.access,
        }));
        Ok(granted)
    }

    #[cfg(target_os = "linux")]
    fn mapped(
        mut self,
        settled: Vec<DirGrant>,
        user: &JobUser,
        (points, name): (&Path, &str),
        agent: &ProgramFile,
    ) -> Result<Self, ContainerError> {
        codebox_files::private_dir(points).map_err(ContainerError::io("make", points))?;
        let swap =
            Swap::with(user.uid, agent).map_err(ContainerError::io("make a user namespace with", agent.path()))?;
        for (count, grant) in settled.into_iter().enumerate() {
            let host = grant.host.to_path_buf();
            let mounted =
                swap.mount(&host, &points.join(format!("{name}-{count}")), grant.access).map_err(|error| {
                    let why = format!("root's files in it cannot be shown as the job's: {error}");
                    ContainerError::Grant { path: host.clone(), why }
                })?;
            self.binds.push(Bind {
                host: mounted.point().to_owned(),
                guest: grant.guest.as_str().to_owned(),
                access: grant.access,
            });
            self.mounted.push(mounted);
        }
        Ok(self)
    }

    /// What another process has made ready, and keeps so.
    pub(crate) fn lent(binds: Vec<Bind>) -> Self {
        Self { binds, ..Self::default() }
    }

    /// Which limits do not cover what is written to granted directories: nobody knows what was in them before, and to find
    /// out can take longer than the job.
    pub(crate) fn uncovered(&self) -> BTreeMap<LimitKind, String> {
        let writable = self.binds.iter().filter(|bind| bind.access == Access::ReadWrite);
        let places: Vec<&str> = writable.map(|bind| bind.guest.as_str()).collect();
        if places.is_empty() {
            return BTreeMap::new();
        }
        let what = format!("what is written to the granted {}", places.join(", "));
        [LimitKind::Disk, LimitKind::Files].map(|kind| (kind, what.clone())).into()
    }

    /// Whether a granted directory appears at this very place.
    pub(crate) fn covers(&self, guest: &GuestPath) -> bool {
        self.binds.iter().any(|bind| bind.guest == guest.as_str())
    }
}

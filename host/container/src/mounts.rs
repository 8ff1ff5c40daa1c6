//! Bind mounts of host files and directories in a container.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bollard::models::{Mount, MountBindOptions, MountBindOptionsPropagationEnum, MountType};
use codebox_core::path::resolve_overlaps;
use codebox_core::{Access, DirGrant, GuestPath, LimitKind};
use codebox_files::ProgramFile;

use crate::caller::{FileOwnership, JobUser};
use crate::error::ContainerError;
use crate::flavour::Flavour;
#[cfg(target_os = "linux")]
use crate::owners::{IdMapNamespace, IdMappedMount};

/// Guest directory for a program that is in no granted directory, if the user's directory is at /work.
pub(crate) const PROGRAM_DIR: &str = "/run/codebox";

/// Guest paths of a job's private directories.
pub(crate) const PRIVATE_GUEST_PATHS: [&str; 2] = ["/work", "/tmp"];

/// A bind mount of a host file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bind {
    pub host: PathBuf,
    pub guest: String,
    pub access: Access,
}

impl Bind {
    /// Returns the bind as an option string for Podman, which forbids set-user-ID programs and devices. Returns `None`
    /// for Docker, for binds other than writable private directories, and for paths that cannot be part of the string.
    ///
    /// The API that both engines share has no such options, and Docker has no other API. A path with a colon would
    /// break the string; the paths of codebox's own directories have no colon unless the home's path has one.
    pub(crate) fn to_option_string(&self, flavour: Flavour) -> Option<String> {
        let is_private = self.access == Access::ReadWrite && PRIVATE_GUEST_PATHS.contains(&self.guest.as_str());
        let host =
            self.host.to_str().filter(|host| !host.contains([':', ',', '"']) && !host.contains(char::is_control))?;
        let guest = &self.guest;
        (flavour == Flavour::Podman && is_private).then(|| format!("{host}:{guest}:rw,nosuid,nodev,rprivate,bind"))
    }

    /// Returns the bind as a structured mount and not as a string, which a colon in a path would break.
    ///
    /// Podman still converts the mount to an option string, in which a comma starts the next option, so such paths are
    /// refused.
    pub(crate) fn lower(&self, flavour: Flavour) -> Result<Mount, ContainerError> {
        let is_unsupported = |c: char| matches!(c, ',' | '"') || c.is_control();
        if flavour == Flavour::Podman
            && (self.guest.contains(is_unsupported) || self.host.to_string_lossy().contains(is_unsupported))
        {
            let why =
                "Podman does not support paths with a comma, a quote or a control character; rename it, or use docker";
            let subject = format!("{} at {}", self.host.display(), self.guest);
            return Err(ContainerError::Input { subject, why: why.to_owned() });
        }
        let not_text = || ContainerError::Grant { path: self.host.clone(), why: "path is not UTF-8".to_owned() };
        Ok(Mount {
            typ: Some(MountType::BIND),
            source: Some(self.host.to_str().ok_or_else(not_text)?.to_owned()),
            target: Some(self.guest.clone()),
            read_only: Some(self.access == Access::ReadOnly),
            bind_options: Some(MountBindOptions {
                propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
                // Mounts below the directory on the host are not visible in the container.
                non_recursive: Some(true),
                ..MountBindOptions::default()
            }),
            ..Mount::default()
        })
    }
}

/// The granted directories as binds, and the mounts that the binds need.
#[derive(Default)]
pub(crate) struct Granted {
    pub binds: Vec<Bind>,
    #[cfg(target_os = "linux")]
    mounted: Vec<IdMappedMount>,
}

impl Granted {
    /// Prepares granted directories for the job's user. Mounts are created below `mounts_dir`, and `name` is a prefix that
    /// is unique there.
    pub(crate) fn new(
        dirs: &[DirGrant],
        user: &JobUser,
        mounts_dir: &Path,
        name: &str,
        agent: &ProgramFile,
    ) -> Result<Self, ContainerError> {
        let settled = resolve_overlaps(dirs)
            .map_err(|error| ContainerError::Input { subject: "grants".to_owned(), why: error.to_string() })?;
        let mut granted = Self::default();
        if settled.is_empty() {
            return Ok(granted);
        }
        #[cfg(target_os = "linux")]
        if user.owners == FileOwnership::Mapped {
            return granted.id_mapped(settled, user, mounts_dir, name, agent);
        }
        let _ = (user, mounts_dir, name, agent, FileOwnership::Mapped);
        granted.binds.extend(settled.into_iter().map(|grant| Bind {
            host: grant.host.to_path_buf(),
            guest: grant.guest.as_str().to_owned(),
            access: grant.access,
        }));
        Ok(granted)
    }

    #[cfg(target_os = "linux")]
    fn id_mapped(
        mut self,
        settled: Vec<DirGrant>,
        user: &JobUser,
        mounts_dir: &Path,
        name: &str,
        agent: &ProgramFile,
    ) -> Result<Self, ContainerError> {
        codebox_files::private_dir(mounts_dir).map_err(ContainerError::io("create", mounts_dir))?;
        let namespace = IdMapNamespace::with(user.uid, agent)
            .map_err(ContainerError::io("create a user namespace with", agent.path()))?;
        for (count, grant) in settled.into_iter().enumerate() {
            let host = grant.host.to_path_buf();
            let mounted =
                namespace.mount(&host, &mounts_dir.join(format!("{name}-{count}")), grant.access).map_err(|error| {
                    let why = format!("cannot map the owner of root's files in it to the job's user: {error}");
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

    /// Returns the binds that another process has prepared and keeps mounted.
    pub(crate) fn from_lease(binds: Vec<Bind>) -> Self {
        Self { binds, ..Self::default() }
    }

    /// Returns the limits that do not cover writes to granted directories. The directories' content before the job is
    /// unknown, and measuring it can take longer than the job.
    pub(crate) fn uncovered(&self) -> BTreeMap<LimitKind, String> {
        let writable = self.binds.iter().filter(|bind| bind.access == Access::ReadWrite);
        let places: Vec<&str> = writable.map(|bind| bind.guest.as_str()).collect();
        if places.is_empty() {
            return BTreeMap::new();
        }
        let what = format!("writes to the granted {}", places.join(", "));
        [LimitKind::Disk, LimitKind::Files].map(|kind| (kind, what.clone())).into()
    }

    /// Returns true if a granted directory is mounted at exactly this path.
    pub(crate) fn covers(&self, guest: &GuestPath) -> bool {
        self.binds.iter().any(|bind| bind.guest == guest.as_str())
    }
}

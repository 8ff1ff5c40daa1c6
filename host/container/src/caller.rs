//! The job's user in a container, and the owner of the job's files on the host.

use serde::{Deserialize, Serialize};

use crate::facts::EngineFacts;
use crate::flavour::Flavour::{Docker, Podman};

/// User and group of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
}

/// User and group of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobUser {
    pub uid: u32,
    pub gid: u32,
    pub owners: FileOwnership,
}

/// Ownership of host files from the job's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileOwnership {
    /// The files belong to the caller, and the job runs as the caller.
    TheCallers,
    /// The files belong to the caller, and a user namespace gives the caller the same user number in the container.
    KeepId,
    /// The caller is root and the job another user. An ID-mapped mount shows root's files as the job's.
    Mapped,
}

/// First user number for jobs of a root caller: above all ranges that systems allocate, below the numbers that engines
/// reject.
const FIRST_JOB_UID: u32 = 1_900_000_000;

impl JobUser {
    /// Returns the user for one job. Each job of a root caller gets its own number, so that no two jobs share the
    /// kernel's per-user counters.
    pub(crate) fn pick(facts: &EngineFacts, caller: Caller) -> Self {
        let Caller { uid, gid } = caller;
        match (uid, facts.rootless, facts.flavour) {
            (0, false, _) => {
                let own = FIRST_JOB_UID + rand::random::<u32>() % (1 << 24);
                Self { uid: own, gid: own, owners: FileOwnership::Mapped }
            }
            (_, true, Podman) => Self { uid, gid, owners: FileOwnership::KeepId },
            // Root in a container of rootless Docker is the caller on the host, and is unprivileged in the container as
            // well.
            (_, true, Docker) => Self { uid: 0, gid: 0, owners: FileOwnership::TheCallers },
            (_, false, _) => Self { uid, gid, owners: FileOwnership::TheCallers },
        }
    }
}

/// Returns the user and group of this process.
#[cfg(unix)]
pub(crate) fn caller() -> Caller {
    Caller { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}

/// Returns a fixed user and group. On these systems engines run in virtual machines whose shared folders any user can
/// access.
#[cfg(not(unix))]
pub(crate) fn caller() -> Caller {
    Caller { uid: 1000, gid: 1000 }
}

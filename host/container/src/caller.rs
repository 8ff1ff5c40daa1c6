//! Who a job is inside its container, and whose its files are outside.

use crate::facts::EngineFacts;

/// The user of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct JobUser {
    pub uid: u32,
    pub gid: u32,
    pub owners: Owners,
}

/// How files of the host's belong to the job's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Owners {
    /// They are the caller's, and the job runs as the caller.
    TheCallers,
    /// As before, through a user namespace that shows the caller as itself.
    KeepId,
    /// The caller is root and the job somebody else: a mount shows root's files as the job's.
    Mapped,
}

/// The first user number of jobs of a root caller: beyond all ranges that systems give out, below what engines refuse.
const FIRST: u32 = 1_900_000_000;

impl JobUser {
    /// The user of one job. One of a root caller has a number of its own, so that no two jobs share what the kernel counts
    /// by user.
    pub(crate) fn pick(facts: &EngineFacts, (uid, gid): (u32, u32)) -> Self {
        use crate::engine::Flavour::{Docker, Podman};
        match (uid, facts.rootless, facts.flavour) {
            (0, false, _) => {
                let own = FIRST + rand::random::<u32>() % (1 << 24);
                Self { uid: own, gid: own, owners: Owners::Mapped }
            }
            (_, true, Podman) => Self { uid, gid, owners: Owners::KeepId },
            // The root of a rootless Docker's containers is the caller outside, and has no power inside either.
            (_, true, Docker) => Self { uid: 0, gid: 0, owners: Owners::TheCallers },
            (_, false, _) => Self { uid, gid, owners: Owners::TheCallers },
        }
    }
}

/// This process's user and group.
#[cfg(unix)]
pub(crate) fn caller() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Elsewhere engines run in machines of their own, whose shared folders are anybody's.
#[cfg(not(unix))]
pub(crate) fn caller() -> (u32, u32) {
    (1000, 1000)
}

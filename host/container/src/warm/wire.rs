//! Protocol between a pool daemon and its clients: one line of JSON in each direction, then the connection to the
//! agent.

use std::path::PathBuf;

use codebox_core::Access;
use serde::{Deserialize, Serialize};

use super::Shape;
use crate::caller::JobUser;
use crate::mounts::Bind;

/// Length limit for a line, in bytes.
pub(crate) const MAX_LINE_SIZE: u64 = 1 << 20;

/// A request for a container of a shape, with the number of containers to keep ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolRequest {
    /// Identifier of the client's build of codebox.
    pub build: String,
    /// Address of the engine.
    pub place: String,
    pub count: u32,
    pub shape: Shape,
}

/// Answer of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PoolReply {
    /// A container that is lent until the connection ends. The data that follows comes from its agent.
    Lent(Lease),
    /// No container is ready.
    None,
    /// The daemon ends: it is another build, or the client wants no containers kept ready.
    Ending,
}

/// A container that is lent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    pub container: String,
    pub user: JobUser,
    /// Directory that holds the private directories.
    pub scratch: PathBuf,
    pub granted: Vec<LeasedDir>,
}

/// A granted directory as it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeasedDir {
    host: PathBuf,
    guest: String,
    writable: bool,
}

impl From<&Bind> for LeasedDir {
    fn from(bind: &Bind) -> Self {
        let Bind { host, guest, access } = bind;
        Self { host: host.clone(), guest: guest.clone(), writable: *access == Access::ReadWrite }
    }
}

impl From<LeasedDir> for Bind {
    fn from(leased_dir: LeasedDir) -> Self {
        let LeasedDir { host, guest, writable } = leased_dir;
        Self { host, guest, access: if writable { Access::ReadWrite } else { Access::ReadOnly } }
    }
}

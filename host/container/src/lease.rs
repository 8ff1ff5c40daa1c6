//! Description of a container that one process leases to another.

use std::path::PathBuf;

use codebox_core::Access;
use serde::{Deserialize, Serialize};

use crate::caller::JobUser;
use crate::mounts::Bind;

/// A container that is leased.
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

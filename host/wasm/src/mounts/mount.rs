//! One mount of a guest.

use std::path::PathBuf;

use codebox_core::{Access, GuestPath};

/// A host directory that is mounted in the guest.
#[derive(Debug, Clone)]
pub(crate) struct Mount {
    /// Path in the guest.
    pub guest: GuestPath,
    /// Path on the host, resolved once before the guest starts.
    pub host: PathBuf,
    pub access: Access,
}

use std::fmt;

use serde::{Deserialize, Serialize};

use super::guest::GuestPath;
use super::host::HostPath;

/// Access to a granted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Access {
    /// Read only.
    #[default]
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl Access {
    /// Returns the word that users type: `ro` or `rw`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "ro",
            Self::ReadWrite => "rw",
        }
    }

    /// Returns the stricter of the two.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        self.min(other)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Host directory that is visible in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DirGrant {
    /// Absolute path of the directory, free of symbolic links.
    pub host: HostPath,
    /// Path in the guest.
    pub guest: GuestPath,
    /// Access of the guest.
    pub access: Access,
}

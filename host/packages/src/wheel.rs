//! Wheels, each identified by its package, version, file and sha256.

use serde::{Deserialize, Serialize};

/// One exact wheel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wheel {
    /// The package's name.
    pub(crate) name: String,
    /// The package's version.
    pub(crate) version: String,
    /// The wheel's file name.
    pub(crate) file: String,
    /// The URL of the file, without credentials. Empty if the user's indexes are to be searched for it.
    pub(crate) url: String,
    /// The sha256 of the file.
    pub(crate) sha256: String,
    /// The size in bytes, if the index lists it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
}

impl Wheel {
    /// Returns true if the wheel is for any platform.
    #[must_use]
    pub(crate) fn is_pure(&self) -> bool {
        self.file.ends_with("-none-any.whl")
    }
}

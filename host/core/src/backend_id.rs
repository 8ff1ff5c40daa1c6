use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names of the container engines that a user can select, the preferred one first.
pub const CONTAINER_ENGINES: [&str; 2] = ["podman", "docker"];

/// Name of a backend, such as `wasm` or `podman`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
    /// Creates an id from a name that is known at compile time.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// Creates an id from a name that was read at run time, such as one from another process's report.
    #[must_use]
    pub const fn from_string(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

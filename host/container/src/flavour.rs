//! Kinds of engines.

use std::fmt;
use std::str::FromStr;

use codebox_core::{BackendId, NameError};
use serde::{Deserialize, Serialize};

/// The kind of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Flavour {
    /// Podman.
    Podman,
    /// Docker, or an engine that behaves like it.
    Docker,
}

impl Flavour {
    /// Both kinds, in the order of preference.
    pub const ALL: [Self; 2] = [Self::Podman, Self::Docker];

    /// Returns the name in options and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }

    /// Returns the id of the backend.
    #[must_use]
    pub const fn id(self) -> BackendId {
        BackendId::new(self.as_str())
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Flavour {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|flavour| flavour.as_str() == text);
        known.ok_or_else(|| NameError::new("engine", text, "use podman or docker"))
    }
}

#[cfg(test)]
mod tests {
    use codebox_core::CONTAINER_ENGINES;

    use super::*;

    #[test]
    fn users_can_select_every_engine() {
        assert_eq!(Flavour::ALL.map(Flavour::as_str), CONTAINER_ENGINES);
    }
}

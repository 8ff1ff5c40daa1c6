use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Part of the tier that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Layer {
    /// The program that runs virtual machines.
    Hypervisor,
    /// The virtual machine.
    Vm,
    /// The connection to it, or its network.
    Network,
    /// Podman in it.
    Podman,
    /// The image that it is made from.
    Image,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hypervisor => "hypervisor",
            Self::Vm => "virtual machine",
            Self::Network => "connection to the virtual machine",
            Self::Podman => "Podman in the virtual machine",
            Self::Image => "image of the virtual machine",
        })
    }
}

/// Failure of the tier.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{layer}: {reason}")]
pub struct VmError {
    /// Part that failed.
    pub layer: Layer,
    /// Reason, in one line.
    pub reason: String,
    /// Remedy, in one line.
    pub fix: String,
}

impl VmError {
    /// Creates an error.
    pub fn new(layer: Layer, reason: impl fmt::Display, fix: impl Into<String>) -> Self {
        Self { layer, reason: reason.to_string().replace(['\n', '\r'], " "), fix: fix.into() }
    }

    /// Creates an error for an action on the files of a machine.
    pub(crate) fn of_files(action: &str, error: &io::Error) -> Self {
        let fix = match error.kind() {
            io::ErrorKind::StorageFull => "free disk space",
            _ => "see codebox doctor",
        };
        Self::new(Layer::Vm, format!("cannot {action}: {error}"), fix)
    }
}

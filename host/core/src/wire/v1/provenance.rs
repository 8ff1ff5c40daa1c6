use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::outcome::words;
use crate::isolation::Isolation;
use crate::report;

/// Backend that ran a job, and the reason that it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Provenance {
    /// Backend.
    pub backend: String,
    /// Isolation between guest and host.
    pub isolation: IsolationName,
    /// Guest runtime and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Image that the guest started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Digest of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// Engine and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Id of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// Working directory of the program in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Reason that this backend was chosen.
    pub reason: String,
    /// Earlier run that was abandoned for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_from: Option<EscalatedFrom>,
}

/// Run that was abandoned for a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EscalatedFrom {
    /// Backend that ran first.
    pub backend: String,
    /// Isolation of that backend.
    pub isolation: IsolationName,
    /// Feature that the backend lacked.
    pub reason: String,
}

words! {
    /// Isolation between guest and host.
    #[serde(rename_all = "snake_case")]
    IsolationName of Isolation {
        /// A WebAssembly sandbox inside a confined process.
        Wasm,
        /// A container on the host's kernel.
        Container,
        /// A container inside a virtual machine.
        Vm,
    }
}

/// Resource use of a run; an unknown value is absent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    /// Milliseconds from start to end.
    pub wall_ms: f64,
    /// Milliseconds of processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// Peak memory use, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Milliseconds from the request to the program's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_ms: Option<f64>,
    /// Bytes written to files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_written_bytes: Option<u64>,
    /// Counted instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
}

/// Converts to milliseconds with three decimals, which is the useful precision of the clocks.
pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

impl From<&report::Usage> for Usage {
    fn from(usage: &report::Usage) -> Self {
        let report::Usage { wall, cpu, peak_memory, startup, disk_written, fuel } = *usage;
        Self {
            wall_ms: millis(wall),
            cpu_ms: cpu.map(millis),
            peak_memory_bytes: peak_memory,
            startup_ms: startup.map(millis),
            disk_written_bytes: disk_written,
            fuel,
        }
    }
}

impl From<&report::Provenance> for Provenance {
    fn from(provenance: &report::Provenance) -> Self {
        let report::Provenance {
            backend,
            isolation,
            runtime,
            image,
            image_digest,
            engine,
            container_id,
            directory,
            reason,
            escalated_from,
        } = provenance.clone();
        let from = |report::EscalatedFrom { backend, isolation, reason }| EscalatedFrom {
            backend: backend.to_string(),
            isolation: isolation.into(),
            reason,
        };
        Self {
            backend: backend.to_string(),
            isolation: isolation.into(),
            runtime,
            image,
            image_digest,
            engine,
            container_id,
            directory: directory.map(|directory| directory.to_string()),
            reason,
            escalated_from: escalated_from.map(from),
        }
    }
}

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::words;
use crate::isolation::Isolation;
use crate::report;

/// What ran a job, and why that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// The backend.
    pub backend: String,
    /// What stood between guest and host.
    pub isolation: IsolationName,
    /// The guest runtime and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The image it started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// That image's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_digest: Option<String>,
    /// The engine and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// The container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// Why this backend.
    pub reason: String,
    /// What was tried before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_from: Option<EscalatedFrom>,
}

/// A run that was given up for a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EscalatedFrom {
    /// The backend that ran first.
    pub backend: String,
    /// Its isolation.
    pub isolation: IsolationName,
    /// What it lacked.
    pub reason: String,
}

words! {
    /// What stands between guest and host.
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

/// What a run used; what is not known is not there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Milliseconds from start to end.
    pub wall_ms: f64,
    /// Milliseconds of processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The most memory held at one time.
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

/// Milliseconds with three decimals, which is as much as clocks here are good for.
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
            reason,
            escalated_from: escalated_from.map(from),
        }
    }
}

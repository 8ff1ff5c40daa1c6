use std::time::Duration;

use crate::backend::BackendId;
use crate::isolation::Isolation;

/// What a run used. Unknown is `None`, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Time from the program's start to its end.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Option<Duration>,
    /// The most memory held at one time, in bytes.
    pub peak_memory: Option<u64>,
    /// Time from the request to the program's start.
    pub startup: Option<Duration>,
    /// Bytes written to files.
    pub disk_written: Option<u64>,
    /// Instructions, as the engine counts them.
    pub fuel: Option<u64>,
}

/// What ran a job, and why that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The backend.
    pub backend: BackendId,
    /// What stood between guest and host.
    pub isolation: Isolation,
    /// The guest runtime and its version.
    pub runtime: Option<String>,
    /// The image it started from.
    pub image: Option<String>,
    /// That image's digest.
    pub image_digest: Option<String>,
    /// The engine and its version.
    pub engine: Option<String>,
    /// The container.
    pub container_id: Option<String>,
    /// Why this backend, in one line.
    pub reason: String,
    /// What was tried before it.
    pub escalated_from: Option<EscalatedFrom>,
}

impl Provenance {
    /// Names a backend and nothing else yet.
    #[must_use]
    pub fn new(backend: BackendId, isolation: Isolation) -> Self {
        Self {
            backend,
            isolation,
            runtime: None,
            image: None,
            image_digest: None,
            engine: None,
            container_id: None,
            reason: String::new(),
            escalated_from: None,
        }
    }
}

/// A run that was given up for a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscalatedFrom {
    /// The backend that ran first.
    pub backend: BackendId,
    /// Its isolation.
    pub isolation: Isolation,
    /// What it lacked.
    pub reason: String,
}

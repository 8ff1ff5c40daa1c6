use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend_id::BackendId;
use crate::isolation::Isolation;
use crate::path::GuestPath;

/// Resource use of a run; an unknown value is `None`, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Time from the program's start to its end.
    pub wall: Duration,
    /// Processor time.
    pub cpu: Option<Duration>,
    /// Peak memory use, in bytes.
    pub peak_memory: Option<u64>,
    /// Time from the request to the program's start.
    pub startup: Option<Duration>,
    /// Bytes written to files.
    pub disk_written: Option<u64>,
    /// Instructions, as the engine counts them.
    pub fuel: Option<u64>,
}

/// Backend that ran a job, and the reason that it was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Backend.
    pub backend: BackendId,
    /// Isolation between guest and host.
    pub isolation: Isolation,
    /// Guest runtime and its version.
    pub runtime: Option<String>,
    /// Image that the guest started from.
    pub image: Option<String>,
    /// Digest of the image.
    pub image_digest: Option<String>,
    /// Engine and its version.
    pub engine: Option<String>,
    /// Id of the container.
    pub container_id: Option<String>,
    /// Working directory of the program in the container.
    pub directory: Option<GuestPath>,
    /// Reason that this backend was chosen, in one line.
    pub reason: String,
    /// Earlier run that was abandoned for this one.
    pub escalated_from: Option<EscalatedFrom>,
}

impl Provenance {
    /// Creates a provenance with only the backend and its isolation.
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
            directory: None,
            reason: String::new(),
            escalated_from: None,
        }
    }
}

/// Run that was abandoned for a stronger isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalatedFrom {
    /// Backend that ran first.
    pub backend: BackendId,
    /// Isolation of that backend.
    pub isolation: Isolation,
    /// Feature that the backend lacked.
    pub reason: String,
}

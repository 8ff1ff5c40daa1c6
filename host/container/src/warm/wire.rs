//! Protocol between a pool daemon and its clients: one line of JSON in each direction, then the connection to the
//! agent.

use serde::{Deserialize, Serialize};

use super::Shape;
use crate::lease::Lease;

/// Length limit for a line, in bytes.
pub(crate) const MAX_LINE_SIZE: u64 = 1 << 20;

/// A request for a container of a shape, with the number of containers to keep ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PoolRequest {
    /// Identifier of the client's build of codebox.
    pub build: String,
    /// Address of the engine.
    pub place: String,
    pub count: u32,
    pub shape: Shape,
}

/// Answer of a daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PoolReply {
    /// A container that is leased until the connection ends. The data that follows comes from its agent.
    Leased(Lease),
    /// No container is ready.
    None,
    /// The daemon ends: it is another build, or the client needs no containers kept ready.
    Ending,
}

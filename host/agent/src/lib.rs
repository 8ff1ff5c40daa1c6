//! Protocol between a host and the agent inside a container.
//!
//! The protocol uses one pair of byte streams, the agent's standard input and output, which the engine carries. A job's
//! own streams are pipes to the agent, so that no output of a job can be mistaken for an event of the agent.
//!
//! The host sends [`Order`]s and the agent sends [`Word`]s, each as a [`frame`] of a kind, a length and a payload. A
//! job lasts from `Run` to `Ended`, and an agent runs one job at a time. When the host's stream ends, for whatever
//! reason, the agent kills all processes and exits, because no one is left to receive the result.

#![forbid(unsafe_code)]

pub mod door;
pub mod frame;
mod order;
mod word;

pub use order::{Asks, Order, Run};
pub use word::{Ended, Evidence, Status, Stop, Word};

/// Path of the agent inside a container.
pub const AGENT_PLACE: &str = "/.codebox/agent";

/// Bytes of a job's input that a host may send before the agent requests more.
pub const FIRST_INPUT: u32 = 64 << 10;

/// Name of the abstract socket through which programs query the host.
pub const ASK_SOCKET: &[u8] = b"codebox-ask";

/// Length limit for a program's query and for an answer, in bytes.
pub const MAX_ASK: usize = 4 << 20;

/// Most queries of a container that wait for an answer at one time.
pub const MAX_ASKED: usize = 8;

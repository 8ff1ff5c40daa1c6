//! Protocol between a host and the agent inside a container.
//!
//! The protocol uses one pair of byte streams, the agent's standard input and output, which the engine carries. A job's
//! own streams are pipes to the agent, so that no output of a job can be mistaken for an event of the agent.
//!
//! The host sends [`Request`]s and the agent sends [`Event`]s, each as a [`frame`] of a kind, a length and a payload. A
//! job lasts from `Run` to `JobExit`, and an agent runs one job at a time. After `OpenBox` it runs the [commands](command) of a
//! box instead, many at once. When the host's stream ends, for whatever
//! reason, the agent kills all processes and exits, because no one is left to receive the result.

#![forbid(unsafe_code)]

pub mod command;
mod event;
pub mod frame;
pub mod identity;
pub mod port_forward;
mod process_limit;
mod request;

pub use event::{CgroupStats, Event, JobExit, Status, Stop};
pub use process_limit::ProcessLimit;
pub use request::{QueryPermission, Request, Run};

/// Version of the protocol, which the agent reports when it is ready. A host uses an agent of the same version only.
pub const PROTOCOL_VERSION: u32 = 3;

/// Path of the agent inside a container.
pub const AGENT_PATH: &str = "/.codebox/agent";

/// Bytes of a job's input that a host may send before the agent requests more.
pub const INITIAL_INPUT_CREDIT: u32 = 64 << 10;

/// Name of the abstract socket through which programs query the host.
pub const QUERY_SOCKET: &[u8] = b"codebox-query";

/// Length limit for a program's query and for an answer, in bytes.
pub const MAX_QUERY_SIZE: usize = 4 << 20;

/// Most queries of a container that wait for an answer at one time.
pub const MAX_OPEN_QUERIES: usize = 8;

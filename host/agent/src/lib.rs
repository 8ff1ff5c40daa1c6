//! What a host and the agent inside a container say to each other.
//!
//! Both talk over one pair of byte streams, the agent's standard input and output, which the engine carries. A job's own
//! streams are pipes of the agent's, so that nothing a job writes can be taken for a word of the agent.
//!
//! The host sends [`Order`]s and the agent [`Word`]s, each as a [`frame`]: a kind, a length, a payload. Between
//! `Run` and `Ended` lies one job; an agent runs one at a time. When the host's stream ends, however it ends, the agent
//! kills all that runs and ends itself: nobody is left to take the result.

#![forbid(unsafe_code)]

pub mod door;
pub mod frame;
mod order;
mod word;

pub use order::{Asks, Order, Run};
pub use word::{Ended, Evidence, Status, Stop, Word};

/// Where the agent stands inside a container.
pub const AGENT_PLACE: &str = "/.codebox/agent";

/// Bytes of a job's input that a host may send before the agent asks for more.
pub const FIRST_INPUT: u32 = 64 << 10;

/// The name of the abstract socket that programs ask the host through.
pub const ASK_SOCKET: &[u8] = b"codebox-ask";

/// The longest question that a program may ask, and the longest answer.
pub const MAX_ASK: usize = 4 << 20;

/// Most questions of a container that wait for an answer at one time.
pub const MAX_ASKED: usize = 8;

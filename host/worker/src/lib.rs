//! A backend whose guests run in processes of their own ([`WorkerBackend`]), and the work of such a process ([`serve`]).
//!
//! ```text
//! this process                                   worker
//!    open: version, specification ─────────────▶ open the guest with its own backend
//!    ◀─────────────────────────────────── opened
//!    exec: job ────────────────────────────────▶ confine the process; run the program
//!    ◀────────────────── started, output, requests for input
//!    input, cancellation ──────────────────────▶
//!    ◀───────────────────────────────── report   (the directories of the job are removed)
//! ```
//!
//! A worker runs one job, or those of one session. It confines itself to the grants of this job before the program starts, so that a guest that
//! leaves its sandbox reaches nothing of other jobs or of the program that embeds codebox. Its messages are untrusted
//! from then on: their size is bounded, and the report is checked against the job.
//!
//! The channel is a Unix socket. Both sides must be of the same version; the messages are not a stable format.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod backend;
mod check;
mod connection;
mod execution;
pub mod frame;
mod message;
mod serve;
#[cfg(test)]
mod tests;
mod values;

pub use backend::WorkerBackend;
pub use connection::{Launch, Launched, ProcessEnd, WorkerProcess};
pub use message::Failure;
pub use serve::{Work, serve};

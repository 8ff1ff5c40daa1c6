//! A host process that has compiled code loaded and forks a worker for each run of the command line.
//!
//! ```text
//! codebox run ...                    host process                      worker
//!    connect, prove, job ───────────▶ check the peer
//!                                     pass the job ───────────────────▶ take over streams, directory,
//!    ◀─────────────────── accepted                                      environment; run; exit
//!    signals ───────────────────────▶ signal the worker
//!    ◀──────────────────────── status wait for the worker
//! ```
//!
//! The host process is single-threaded and runs no guest. Each worker is a process of its own, which runs the same
//! command line as a process that is started directly, confines itself, and ends with its run. The arguments and the
//! environment of a run are in a file in memory that only its worker reads.
//!
//! A client whose host is missing, busy, stopped or of another build runs the command itself.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

mod borrowed;
mod client;
mod control;
mod place;
mod program;
mod server;
mod sys;
mod wire;

pub use borrowed::{BorrowedWorker, WorkerCommand, WorkerEnd, borrow_worker};
pub use client::{Served, run};
pub use control::{ControlError, status, stop};
pub use place::Place;
pub use program::ProgramId;
pub use server::{Ended, Options, ServeError, Work, serve};
pub use sys::close_other_descriptors;
pub use wire::Status;

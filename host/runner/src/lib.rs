//! The pipeline that runs jobs, for every front end.
//!
//! ```text
//! Request ─ admit ─ analyze ─ choose the tier ─ prepare (runtime, image, packages) ─ open ─ exec ─ report
//!                                                                                          └─ rerun in a container, once
//! ```
//!
//! A [`Runner`] is put together by a [`Builder`] from a policy, backends, a catalog of runtimes and a provider of
//! packages. This crate knows all of them only as traits, and creates each of them on first use.
//!
//! A front end that does more than run jobs, such as the command line, takes part in a run through [`FrontEnd`]: it is
//! called before the guest starts, and decides how a job is run again.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod attach;
mod audit;
mod automatic_image;
mod boxes;
mod builder;
mod cancelled;
mod detached;
mod explain;
mod front_end;
mod lazy;
mod maintenance;
mod offload;
mod open;
mod output;
mod pipeline;
mod rerun;
mod runner;
mod select;
mod session;
mod shaped;
mod spans;
#[cfg(test)]
mod tests;
mod tools;

pub use audit::with_audit;
pub use boxes::{BoxControl, BoxIo, BoxLogEntry, BoxStart, CommandBox, CommandIo, NoBoxes, Shaping};
pub use builder::{AutomaticImages, Builder, Confinement};
pub use codebox_core::RunnerError;
pub use detached::Detached;
pub use explain::{Explanation, TierReport};
pub use front_end::{FrontEnd, RunEnd, Standby, StandbyProcess};
pub use lazy::{Lazy, get_or_create};
pub use runner::Runner;
pub use session::{
    Cell, CellIo, CellTools, Checkpoint, Course, NoSessions, Resumption, Session, SessionClient, SessionControl,
    SessionFileHead, SuspendedCell,
};

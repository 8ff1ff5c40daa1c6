//! codebox runs untrusted code, mostly written by language models, safely and instantly.
//!
//! ```
//! # fn main() -> Result<(), codebox::RunnerError> {
//! # let home = &codebox_testkit::shared_home(env!("CARGO_MANIFEST_DIR"));
//! // `Runner::new()` keeps its files where the platform wants them.
//! let runner = codebox::Runner::below(home)?;
//! let report = runner.run(codebox::Job::python("print(6 * 7)"))?;
//! assert_eq!(report.stdout.bytes().as_ref(), b"42\n");
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the composition root: the only crate that names every backend. Jobs and reports are defined in
//! [`codebox_core`] and re-exported here.

/// The README, whose examples are compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod added;
mod catalog;
mod containers;
mod doctor;
mod host;
mod keeper;
mod network;
mod places;
mod prelude;
mod provisions;
mod runner;
mod settings;

pub use codebox_core::{
    Access, ByteSize, CancelToken, Captured, DirGrant, EscalatedFrom, ExecIo, Grants, GuestPath, HostPath, Isolation,
    IsolationSet, Job, Language, Limit, LimitKind, Limits, Missing, NeedsEscalation, Outcome, OutputSink, RunReport,
    Source, Stdin,
};
pub use places::{Places, PlacesError};
pub use runner::{Runner, RunnerError};
pub use settings::SettingsError;

use std::process::ExitCode;

/// Runs the command line of this process.
pub fn cli_main() -> ExitCode {
    // Dropping memory that the system reclaims at exit would take a tenth of a short run.
    let process = std::mem::ManuallyDrop::new(host::Process::default());
    let status = codebox_cli::main(std::env::args_os(), &*process);
    process.leave();
    status
}

/// Returns the command-line reference in Markdown.
pub fn cli_reference() -> String {
    codebox_cli::reference()
}

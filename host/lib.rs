//! codebox runs untrusted code, mostly written by language models, safely and instantly.
//!
//! ```
//! # fn main() -> Result<(), codebox::RunnerError> {
//! # let dirs = codebox::AppDirs::below(&codebox_testkit::shared_home(env!("CARGO_MANIFEST_DIR")));
//! # let builder = codebox::builder(dirs);
//! // `codebox::runner()` keeps its files where the platform wants them.
//! # /*
//! let runner = codebox::runner();
//! # */
//! # let runner = builder.build();
//! let report = runner.run(codebox::Request::python("print(6 * 7)"))?;
//! assert_eq!(report.stdout.bytes().as_ref(), b"42\n");
//! # Ok(())
//! # }
//! ```
//!
//! This crate is the composition root: the only crate that names every backend. It puts a [`Runner`] together from the
//! parts of this machine; the pipeline itself is in [`codebox_runner`], and every type in its signatures is re-exported
//! here.
//!
//! # Features
//! - `wasm`: the first tier, WebAssembly. Without it and `containers`, no job can run.
//! - `compiler`: the compiler of that tier. Without it, runtimes run that a program with it has prepared. Enables `wasm`.
//! - `analysis`: the analyzer of programs, which selects tiers and images by their needs, and strips TypeScript.
//! - `containers`: the second tier, in Podman and Docker.
//! - `packages`: packages of Python and npm, and the download of runtimes. Enables `wasm`.
//! - `workers`: programs in WebAssembly in processes of their own ([`Builder::workers`]), on Linux. Enables `wasm`.
//! - `blocks`: the code blocks of Markdown texts ([`blocks`]).
//! - `cli`: the command line, with all of them but `compiler` and `packages`. The default is these three.

/// The README and pages of the documentation, whose examples are compiled with the tests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/blocks.md")]
#[doc = include_str!("../docs/sessions.md")]
#[doc = include_str!("../docs/tools.md")]
struct Documentation;

mod app_dirs;
#[cfg(all(feature = "cli", unix))]
mod automatic_images;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod box_launch;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod box_process;
#[cfg(feature = "cli")]
mod command_line;
#[cfg(feature = "cli")]
mod configured_tools;
#[cfg(feature = "cli")]
mod confinement;
#[cfg(feature = "containers")]
mod containers;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod host_process;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod launch;
mod machine;
#[cfg(all(feature = "cli", target_os = "linux", target_env = "gnu"))]
mod name_service;
#[cfg(feature = "wasm")]
mod network;
#[cfg(feature = "cli")]
mod processes;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod run_only;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod session_process;
#[cfg(all(feature = "workers", target_os = "linux"))]
mod start_host;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod virtual_machine;
#[cfg(feature = "wasm")]
mod webassembly;
#[cfg(all(feature = "cli", target_os = "linux"))]
mod work;
#[cfg(feature = "wasm")]
mod workbench;
#[cfg(all(feature = "workers", target_os = "linux"))]
mod workers;

pub use codebox_analysis::{
    AnalysisError, Analyzer, Budget, Capability, Need, Needs, ResourceUsage, StripRequest, StripResponse, SyntaxError,
    Weight,
};
// All values and traits of jobs, reports and backends appear in the signatures of the pipeline.
pub use app_dirs::{AppDirs, AppDirsError};
#[cfg(feature = "blocks")]
pub use codebox_blocks as blocks;
pub use codebox_core::*;
pub use codebox_runner::{
    BoxControl, BoxIo, BoxLogEntry, BoxStart, Builder, Cell, CellIo, CellTools, Checkpoint, CommandBox, CommandIo,
    Confinement, Course, Detached, Explanation, FrontEnd, RunEnd, Runner, Session, Shaping, Standby, StandbyProcess,
    TierReport,
};
pub use codebox_service::{
    Admitted, Audit, AuditLog, AuditRecord, Catalog, Check, CheckState, Choice, Denied, EnvRequest, EnvRequestError,
    Escalation, HostEnvironment, ImageChoice, JournalOptions, LayerTarget, LinkPolicy, PackageLayers, PackageNeeds,
    PackageProvider, Policy, Preference, Program, Record, Rejected, Request, SecretOrigin, SecretRequest,
    SecretRequestError, SecretSource, State, StoredPackage, audit, catalog,
};
pub use codebox_tools as tools;
#[cfg(feature = "cli")]
pub use command_line::{cli_main, cli_reference};
#[cfg(all(feature = "cli", target_os = "linux"))]
#[doc(hidden)]
pub use launch::launch;
#[cfg(all(feature = "cli", target_os = "linux"))]
#[doc(hidden)]
pub use run_only::run_main;
#[cfg(feature = "wasm")]
#[doc(hidden)]
pub use workbench::{Workbench, workbench};

use machine::{Machine, Use};

/// Returns a runner for this machine, with the user's configuration and directories.
///
/// The runner creates and installs its parts when a job first needs them.
#[must_use]
pub fn runner() -> Runner {
    Machine::new(Use::Library, AppDirs::from_env).builder().build()
}

/// Returns a builder of a runner for this machine that keeps its files in these directories.
#[must_use]
pub fn builder(places: AppDirs) -> Builder {
    Machine::new(Use::Library, move || Ok(places.clone())).builder()
}

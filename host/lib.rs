//! codebox runs untrusted code, mostly written by language models, safely and instantly.
//!
//! ```
//! # fn main() -> Result<(), codebox::RunnerError> {
//! # let places = codebox::Places::below(&codebox_testkit::shared_home(env!("CARGO_MANIFEST_DIR")));
//! # let builder = codebox::builder(places);
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
//! - `containers`: the second tier, in Podman and Docker.
//! - `packages`: packages of Python and npm, and the download of runtimes.
//! - `cli`: the command line.

/// The README, whose examples are compiled with the tests.
#[cfg(all(doctest, feature = "cli"))]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(feature = "cli")]
mod confinement;
#[cfg(feature = "containers")]
mod containers;
mod machine;
mod network;
mod places;
#[cfg(feature = "cli")]
mod processes;

pub use codebox_core::{
    Access, Backend, ByteSize, CancelToken, CapturedOutput, DirGrant, DirGrantSpec, EscalatedFrom, ExecIo, Grants,
    GuestPath, HostPath, InputFile, Isolation, IsolationSet, Job, Language, Limit, LimitKind, LimitOverrides, Limits,
    Missing, NeedsEscalation, NetGrant, Outcome, OutputSink, Progress, Provenance, ResultKind, RunReport, RunnerError,
    Source, Stdin,
};
pub use codebox_runner::{Builder, Confinement, Detached, Explanation, Lazy, Runner, TierReport};
pub use codebox_service::{EnvRequest, LinkPolicy, Policy, Preference, Program, Request};
pub use places::{Places, PlacesError};

use machine::{Machine, Use};

/// Returns a runner for this machine, with the user's configuration and directories.
///
/// The runner creates and installs its parts when a job first needs them.
#[must_use]
pub fn runner() -> Runner {
    Machine::new(Use::Library, Places::from_env).builder().build()
}

/// Returns a builder of a runner for this machine that keeps its files in these directories.
#[must_use]
pub fn builder(places: Places) -> Builder {
    Machine::new(Use::Library, move || Ok(places.clone())).builder()
}

/// A runner with access to its WebAssembly backend, for tests and benchmarks.
#[doc(hidden)]
pub struct Workbench {
    runner: Runner,
    wasm: std::sync::Arc<codebox_wasm::WasmBackend>,
}

impl Workbench {
    /// Returns the WebAssembly backend.
    pub fn backend(&self) -> &codebox_wasm::WasmBackend {
        &self.wasm
    }
}

impl std::ops::Deref for Workbench {
    type Target = Runner;

    fn deref(&self) -> &Runner {
        &self.runner
    }
}

/// Returns a runner below a directory with all runtimes installed, for tests and benchmarks.
#[doc(hidden)]
pub fn workbench(home: &std::path::Path) -> Result<Workbench, RunnerError> {
    let places = Places::below(home);
    let machine = Machine::new(Use::Library, move || Ok(places.clone()));
    let runner = machine.builder().build();
    for runtime in runner.catalog()?.runtimes()? {
        runner.catalog()?.ensure(&runtime.name, runner.progress())?;
    }
    Ok(Workbench { runner, wasm: std::sync::Arc::clone(machine.wasm()?) })
}

/// Runs the command line of this process.
#[cfg(feature = "cli")]
pub fn cli_main() -> std::process::ExitCode {
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if let Some(done) = processes::dispatch(&args) {
        return match done {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(error) => codebox_cli::fail(&error),
        };
    }
    let machine = Machine::new(Use::CommandLine, Places::from_env);
    let compose = |options: codebox_cli::RunnerOptions| command_line_runner(&machine, options);
    let waiter = || waiter(&machine);
    let status = codebox_cli::main(args, codebox_cli::Host { runner: &compose, waiter: &waiter });
    machine.remove_scratch();
    // Dropping memory that the system reclaims at exit would take a tenth of a short run.
    std::mem::forget(machine);
    status
}

#[cfg(feature = "cli")]
fn command_line_runner(machine: &std::sync::Arc<Machine>, options: codebox_cli::RunnerOptions) -> Runner {
    let codebox_cli::RunnerOptions { confinement, progress } = options;
    let confinement = confinement::OwnProcess { machine: std::sync::Arc::clone(machine), choice: confinement };
    let (journal, checked) = (std::sync::Arc::clone(machine), std::sync::Arc::clone(machine));
    let builder = machine.builder().single_job().progress(progress).confinement(std::sync::Arc::new(confinement));
    let builder = builder.journal(move || Ok(journal.places()?.jobs()));
    builder.checks(move || checks(&checked)).build()
}

/// Returns the command of the small program that waits for a byte and then executes codebox. A program that cannot be
/// verified is not run; the report then only states how to rerun the job in a container.
#[cfg(feature = "cli")]
fn waiter(machine: &Machine) -> Option<std::process::Command> {
    let program = codebox_container::agent_program(&machine.places().ok()?.containers()).ok()?;
    let command = program.command();
    // The program's descriptor must stay open until the process has started.
    std::mem::forget(program);
    Some(command)
}

/// Checks this machine, its directories, and the confinement that it offers.
#[cfg(feature = "cli")]
fn checks(machine: &Machine) -> Vec<codebox_service::Check> {
    use codebox_service::Check;

    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let detail = format!("{os} on {arch}, codebox {}", env!("CARGO_PKG_VERSION"));
    let system = match (os, arch) {
        ("linux", "x86_64") => Check::ok("system", detail),
        _ => Check::warn("system", detail, "codebox is tested on Linux on x86-64 only"),
    };
    let places = match machine.places() {
        Ok(places) => {
            Check::ok("directories", format!("data in {}, cache in {}", places.data.display(), places.cache.display()))
        }
        Err(error) => Check::fail("directories", error.message(), "set CODEBOX_HOME to a directory"),
    };
    vec![system, places, confinement::check()]
}

/// Returns the command-line reference in Markdown.
#[cfg(feature = "cli")]
pub fn cli_reference() -> String {
    codebox_cli::reference()
}

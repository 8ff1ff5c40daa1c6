//! The command line: parses arguments, prints results and returns an exit status.
//!
//! This crate is a thin adapter over `codebox-runner`: it parses the arguments, calls the runner and prints the result.
//! It is one of two places that may print, and it ends the process only by returning from [`main`]. It does not know
//! which backends exist: the composition root passes a function that puts the [`Runner`] together.
//!
//! - Standard output contains only the guest's output, the result of a command, or, with `--json`, exactly one JSON
//!   document. All messages of codebox about a run are written to standard error.
//! - On a terminal the guest's output is filtered; to a pipe it is written byte for byte.
//! - File names and error messages are escaped wherever they are printed.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

mod advice;
mod answer;
mod args;
#[cfg(unix)]
mod box_exec;
mod commands;
mod complete;
mod exit;
mod front_end;
mod handover;
mod host;
mod images;
mod interrupt;
mod messages;
mod progress;
mod reference;
mod render;
mod rerun_command;
mod run_terminal;
mod standby;
mod streams;
#[cfg(unix)]
mod terminal;
mod terminal_filter;
mod text_file;
mod trace;
mod usage;
mod vm;

pub use args::with_run;
#[cfg(unix)]
pub use box_exec::{BoxExec, Input};
pub use host::{HostControl, HostStatus, NoHostProcess};
pub use reference::reference;
pub use standby::{STANDBY_VARIABLE, StandbyLauncher};
pub use vm::{MachineControl, MachineStatus, NoMachine, RunningMachine};

use std::sync::Arc;

use codebox_core::{Progress, RunnerError, ToolName};
use codebox_runner::{BoxControl, Runner, SessionControl};
use codebox_service::config::ConfigFiles;
use codebox_service::{Admitted, Preference, Request};
use codebox_tools::{Tool, Toolbox};

use args::{Cli, RunOnlyCli, RunOnlyCommand, mark_separator};
use front_end::Takeover;
use messages::Messages;
use standby::StandbyConnection;
use trace::{TracedProcess, Tracing};

/// Parts of a run that the composition root supplies.
#[derive(Clone, Copy)]
pub struct RunHost<'h> {
    /// The command line, with the program's own name. In a worker of the host process, it is not that of the process.
    pub args: &'h [OsString],
    /// Puts the runner together, without creating any of its parts.
    pub runner: &'h (dyn Fn(RunnerOptions) -> Runner + Sync),
    /// Returns the start of a standby process. `None` if this machine has no program for it.
    pub standby_launcher: &'h (dyn Fn() -> Option<StandbyLauncher> + Sync),
    /// Check of each job in a program that lacks some of the parts; `None` in a program that has all.
    pub check: Option<&'h dyn CheckParts>,
}

/// Check that a program has all parts for a job. A method that does not return runs the job in another program.
pub trait CheckParts: Sync {
    /// Checks an admitted job, before its packages are resolved.
    ///
    /// # Errors
    /// Returns an error if the job cannot run.
    fn admitted(&self, admitted: &Admitted) -> Result<(), RunnerError>;

    /// Checks a job whose backend and image are chosen, before it is recorded. `is_prepared` returns true if all files of the runtime
    /// with which the job starts are there.
    ///
    /// # Errors
    /// Returns an error if the job cannot run.
    fn planned(
        &self,
        admitted: &Admitted,
        is_prepared: &dyn Fn() -> Result<bool, RunnerError>,
    ) -> Result<(), RunnerError>;
}

/// Parts of the command line that the composition root supplies.
#[derive(Clone, Copy)]
pub struct Host<'h> {
    /// The parts of a run.
    pub run: RunHost<'h>,
    /// Puts a runner for several programs together, whose guests run in processes of their own where that is possible.
    pub server_runner: &'h (dyn Fn(ServerOptions) -> Runner + Sync),
    /// Returns the tools of the configuration with these names, and the given tools of MCP servers with their configured approval. Programs
    /// of tools report their preparation to the receiver of progress.
    pub tools: &'h FindTools<'h>,
    /// Returns the names of the tools of the configuration that can be called.
    pub tool_names: &'h (dyn Fn() -> Result<Vec<ToolName>, RunnerError> + Sync),
    /// Returns the request of a tool of the configuration that runs in the sandbox.
    pub tool_request: &'h (dyn Fn(&ToolName, CallLevel) -> Result<Request, RunnerError> + Sync),
    /// Returns the paths of the configuration files.
    pub config_files: &'h (dyn Fn() -> Result<ConfigFiles, RunnerError> + Sync),
    /// Returns the directory of the cells that were typed.
    pub history_dir: &'h (dyn Fn() -> Result<PathBuf, RunnerError> + Sync),
    /// The host process that runs command lines faster.
    pub control: &'h (dyn HostControl + Sync),
    /// The virtual machine of the user.
    pub machine: &'h (dyn MachineControl + Sync),
    /// The processes that keep boxes.
    pub boxes: &'h Arc<dyn BoxControl + Send + Sync>,
    /// The process that keeps sessions.
    pub sessions: &'h Arc<dyn SessionControl + Send + Sync>,
}

/// Function that returns tools by their names, see [`Host::tools`].
pub type FindTools<'h> =
    dyn Fn(&[ToolName], Vec<Tool>, ToolCaller, Arc<dyn Progress>) -> Result<Vec<Tool>, RunnerError> + Sync + 'h;

/// Caller of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCaller {
    /// The user, whose inputs and outputs have paths of this machine.
    User(CallLevel),
    /// A program in a sandbox, which learns no paths of this machine.
    Program,
}

/// Environment that a call of a tool requires or prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLevel {
    /// Environment that it requires.
    pub isolation: Preference,
    /// Isolation that it prefers.
    pub prefers: Option<Preference>,
}

impl Default for CallLevel {
    fn default() -> Self {
        Self { isolation: Preference::Auto, prefers: None }
    }
}

/// Options of the runner that the arguments determine.
pub struct RunnerOptions {
    /// Confinement of the process.
    pub confinement: Confinement,
    /// Receiver of progress and messages.
    pub progress: Arc<dyn Progress>,
}

/// Options of the runner of several programs.
pub struct ServerOptions {
    /// Receiver of progress and messages.
    pub progress: Arc<dyn Progress>,
    /// Host tools that requests can grant.
    pub tools: Option<Toolbox>,
}

/// Confinement of the process before it runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// The process confines itself, as far as the system supports it.
    On,
    /// The user disabled confinement; the sandbox layers are reported as off.
    Off,
}

/// Runs the command line, and returns the process's exit status.
///
/// Call it on the main thread, before any other thread is started, because a run confines the process.
pub fn main(host: Host<'_>) -> u8 {
    // Standby processes wait here, before any other work, because most of them are never needed.
    let mut takeover = match StandbyConnection::find() {
        None => None,
        Some(line) => match Takeover::wait(line) {
            Some(takeover) => Some(takeover),
            // The first process did not need this one.
            None => return 0,
        },
    };
    if let Some(status) = complete::answer_shell(host.run.args) {
        return status;
    }
    raise_open_file_limit();
    let process = if takeover.is_some() { TracedProcess::Standby } else { TracedProcess::First };
    let mut events = Vec::new();
    let status = match Cli::try_parse_from(mark_separator(host.run.args.to_vec())) {
        Ok(cli) => {
            let messages = Messages::new(cli.verbosity.into());
            match Tracing::start(cli.trace, process) {
                Ok(tracing) => {
                    let status = commands::dispatch(cli.command, messages, host, tracing.run(), takeover.as_mut());
                    events = tracing.finish(messages);
                    status
                }
                Err(error) => {
                    messages.fail(&error);
                    error.exit_status()
                }
            }
        }
        Err(error) => usage::answer(&error, host.run.args),
    };
    if let Some(takeover) = takeover {
        takeover.end(status, &events);
    }
    status
}

/// Runs the command line if it is one of `codebox run` whose options need only WebAssembly, and returns the exit status. Returns
/// `None`, and does nothing, for any other command line, also one with an error.
///
/// Call it like [`main`]. It refers to none of the other commands, so a program that calls it alone is a small one.
pub fn run_only(host: RunHost<'_>) -> Option<u8> {
    let cli = RunOnlyCli::try_parse_from(mark_separator(host.args.to_vec())).ok()?;
    let RunOnlyCli { verbosity, trace, command: RunOnlyCommand::Run(args) } = cli;
    if !args.needs_only_wasm() || trace.has_log() {
        return None;
    }
    raise_open_file_limit();
    let messages = Messages::new(verbosity.into());
    Some(match Tracing::start(trace, TracedProcess::First) {
        Ok(tracing) => {
            let status = commands::run_program(*args, messages, host, tracing.run());
            tracing.finish(messages);
            status
        }
        Err(error) => {
            messages.fail(&error);
            error.exit_status()
        }
    })
}

/// Runs a command in a box with the streams of this process, and returns the exit status. It refers to none of the other commands, so a
/// program that calls it alone is a small one.
#[cfg(unix)]
pub fn exec_in_box(control: &dyn BoxControl, exec: BoxExec) -> u8 {
    box_exec::exec_in_box(control, exec, Messages::new(messages::Verbosity::Normal))
}

/// Prints an error of codebox, and returns the exit status for it.
#[must_use]
pub fn fail(error: &RunnerError) -> ExitCode {
    Messages::new(messages::Verbosity::Normal).fail(error);
    ExitCode::from(error.exit_status())
}

/// Raises the limit on open files to the maximum, because connections and directories of concurrent jobs need many.
pub fn raise_open_file_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let now = getrlimit(Resource::Nofile);
        // If the limit cannot be raised, the current one remains.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
    }
}

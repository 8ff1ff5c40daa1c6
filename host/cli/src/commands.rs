//! Implementations of the commands. Each one calls the service, prints the result and returns the exit status.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use codebox_core::{ResultKind, RunnerError, Sweep, exit};
use codebox_runner::Runner;

use crate::args::{Cli, Command, RunArgs};
use crate::commands::tools::CommandTools;
use crate::front_end::Takeover;
use crate::messages::Messages;
use crate::progress::progress;
use crate::reference::reference;
use crate::trace::RunTrace;
use crate::{Confinement, Host, RunHost, RunnerOptions, ServerOptions, answer, complete};

mod audit;
mod blocks;
#[cfg(unix)]
mod boxes;
mod call_tool;
mod config;
mod doctor;
mod explain;
mod gc;
mod host;
mod image;
mod jobs;
mod kernel;
mod mcp;
mod notebook;
mod packaged;
mod packages;
mod repl;
mod run;
mod runtime;
mod session;
mod state;
mod tools;
mod vm;
mod watch;

/// Runs `command`, reports any failure, and returns the process's exit status.
///
/// `takeover` holds the handover of another run, in a process that stood by.
pub(crate) fn dispatch(
    command: Command,
    messages: Messages,
    host: Host<'_>,
    trace: RunTrace,
    takeover: Option<&mut Takeover>,
) -> u8 {
    let command = match command {
        Command::Packaged(args) => match packaged::run_of(*args, messages) {
            Ok(run) => Command::Run(Box::new(run)),
            Err(failure) => {
                messages.fail(&failure);
                return failure.exit_status();
            }
        },
        command => command,
    };
    let notebook = match &command {
        Command::Run(args) => notebook::of(args),
        _ => None,
    };
    let confinement = match &command {
        Command::Run(args) => confinement_of(args),
        _ => Confinement::On,
    };
    let runner = runner(confinement, messages, host.run);
    let done = match command {
        Command::Run(args) if args.watch => watch::watch(&args, host.run.args, messages),
        Command::Run(args) if notebook.is_some() => {
            let is_json = args.json;
            match notebook::run(&notebook.unwrap_or_default(), *args, messages, host) {
                Err(failure) if is_json => return answer::print_failure(&failure),
                done => done,
            }
        }
        Command::Run(args) if !args.tools.is_empty() || args.show.show.is_some() => {
            return run::run_with_tools(*args, messages, host, trace);
        }
        Command::Run(args) => return run::run(*args, messages, &runner, host.run, trace, takeover),
        // It has become a run.
        Command::Packaged(_) => Ok(exit::FAILURE),
        Command::Explain(args) => explain::explain(*args, messages, &runner, host),
        Command::Runtime(command) => runtime::runtime(command, messages, &runner),
        Command::Image(command) => image::image(command, messages, &runner),
        Command::Doctor { json } => doctor::doctor(json, &runner),
        Command::Tool(command) => call_tool::tool(command, messages, host),
        Command::Audit(command) => audit::audit(command, &runner),
        Command::Jobs { last, json: false } => jobs::jobs(last, &runner),
        Command::Jobs { last, json: true } => jobs::jobs_as_json(last, &runner),
        Command::Gc { dry_run: false } => gc::gc(Sweep::Remove, &runner),
        Command::Gc { dry_run: true } => gc::gc(Sweep::DryRun, &runner),
        Command::Host(command) => host::host(command, messages, host.control),
        Command::Config(command) => (host.config_files)().and_then(|files| config::config(command, &files)),
        Command::Vm(command) => vm::vm(command, messages, host.machine),
        #[cfg(unix)]
        Command::Box(command) => return boxes::boxes(command, messages, &runner, host),
        Command::Session(command) => return session::session(command, messages, &runner, host),
        Command::Lock(args) => packages::lock(args, &runner),
        Command::Packages(command) => packages::packages(command, &runner),
        Command::Repl(args) => repl::repl(*args, messages, &runner, host),
        Command::Kernel(command) => kernel::kernel(command, messages, &runner, host),
        Command::Mcp(args) => mcp::mcp(*args, messages, host),
        Command::Blocks(args) => blocks::blocks(*args, messages, host),
        Command::Version { json } => version(json, &runner),
        Command::Completions { shell } => completions(shell),
        Command::ManPages { dir } => man_pages(&dir),
        Command::HelpMarkdown => answer::print(&reference()),
    };
    done.unwrap_or_else(|failure| {
        messages.fail(&failure);
        failure.exit_status()
    })
}

/// Runs the program of `codebox run` without host tools, and returns the process's exit status.
pub(crate) fn run_program(args: RunArgs, messages: Messages, host: RunHost<'_>, trace: RunTrace) -> u8 {
    let runner = runner(confinement_of(&args), messages, host);
    run::run(args, messages, &runner, host, trace, None)
}

fn confinement_of(args: &RunArgs) -> Confinement {
    if args.no_confine { Confinement::Off } else { Confinement::On }
}

/// Returns the runner of this process. Dropping memory that the system reclaims at exit would take a tenth of a short run.
fn runner(confinement: Confinement, messages: Messages, host: RunHost<'_>) -> ManuallyDrop<Runner> {
    ManuallyDrop::new((host.runner)(RunnerOptions { confinement, progress: progress(messages) }))
}

/// Returns a runner for several programs in one process, with their tools.
fn server_runner(messages: Messages, host: Host<'_>, tools: Option<&CommandTools>) -> Arc<Runner> {
    let tools = tools.map(CommandTools::toolbox);
    Arc::new((host.server_runner)(ServerOptions { progress: progress(messages), tools }))
}

/// Prints the version of codebox, and as JSON those of the runtimes as well.
fn version(is_json: bool, runner: &Runner) -> Result<u8, RunnerError> {
    let version = env!("CARGO_PKG_VERSION");
    if !is_json {
        return answer::print(&format!("codebox {version}\n"));
    }
    let runtimes = runner.catalog()?.runtimes()?;
    let runtimes: serde_json::Map<_, _> =
        runtimes.into_iter().map(|entry| (entry.name, entry.version.into())).collect();
    answer::print_json(&serde_json::json!({
        "version": version,
        "os": std::env::consts::OS,
        "arch": std::env::consts::ARCH,
        "runtimes": runtimes,
    }))
}

fn man_pages(dir: &Path) -> Result<u8, RunnerError> {
    let written = clap_mangen::generate_to(<Cli as clap::CommandFactory>::command(), dir);
    written.map(|()| 0).map_err(|error| {
        RunnerError::new(ResultKind::InvalidRequest, format!("cannot write to {}: {error}", dir.display()))
    })
}

fn completions(shell: clap_complete::Shell) -> Result<u8, RunnerError> {
    let script = complete::script(shell).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    answer::print(&String::from_utf8_lossy(&script))
}

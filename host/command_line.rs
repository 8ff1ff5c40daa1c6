//! The command line, over the parts of this machine.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use codebox_cli::{CallLevel, Host, RunHost, RunnerOptions, ServerOptions, StandbyLauncher, ToolCaller};
use codebox_core::{Progress, ToolName};
use codebox_runner::{BoxControl, Builder, Runner, SessionControl};
use codebox_service::Check;
use codebox_tools::Tool;

use crate::app_dirs::{AppDirs, AppDirsError};
use crate::confinement::{self, OwnProcess};
use crate::machine::{Machine, Use};
use crate::processes;

/// Runs the command line of this process.
pub fn cli_main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::name_service::use_built_in_services();
    let args = codebox_cli::with_run(std::env::args_os().collect());
    if let Some(done) = processes::dispatch(&args) {
        return match done {
            Ok(status) => ExitCode::from(status),
            Err(error) => codebox_cli::fail(&error),
        };
    }
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let status = run(&machine, &args, Origin::Start);
    // Dropping memory that the system reclaims at exit would take a tenth of a short run.
    std::mem::forget(machine);
    ExitCode::from(status)
}

/// Origin of the process that runs a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The process was started for the command line.
    Start,
    /// The process is a worker of the host process.
    #[cfg(target_os = "linux")]
    HostProcess,
}

/// Runs a command line, and returns the exit status.
pub(crate) fn run(machine: &Arc<Machine>, args: &[OsString], origin: Origin) -> u8 {
    let compose = |options: RunnerOptions| command_line_runner(machine, options, origin);
    let runner_of_server = |options: ServerOptions| server_runner(machine, options);
    #[cfg(target_os = "linux")]
    let sessions: Arc<dyn SessionControl + Send + Sync> =
        Arc::new(crate::session_process::Control(Arc::clone(machine)));
    #[cfg(not(target_os = "linux"))]
    let sessions: Arc<dyn SessionControl + Send + Sync> = Arc::new(codebox_runner::NoSessions);
    #[cfg(target_os = "linux")]
    let boxes: Arc<dyn BoxControl + Send + Sync> = Arc::new(crate::box_process::Control(Arc::clone(machine)));
    #[cfg(not(target_os = "linux"))]
    let boxes: Arc<dyn BoxControl + Send + Sync> = Arc::new(codebox_runner::NoBoxes);
    let tools = |names: &[ToolName], others: Vec<Tool>, caller: ToolCaller, progress: Arc<dyn Progress>| {
        let runner = || server_runner(machine, ServerOptions { progress: Arc::clone(&progress), tools: None });
        crate::configured_tools::tools(machine, names, others, caller, &runner, &boxes)
    };
    let tool_names = || {
        let configured = &machine.settings()?.tools;
        Ok(configured.iter().filter(|(_, tool)| tool.action.is_some()).map(|(name, _)| name.clone()).collect())
    };
    let standby_launcher = || standby_launcher(machine);
    let tool_request = |name: &ToolName, level: CallLevel| crate::configured_tools::request(machine, name, level);
    let config_files = || machine.config_files();
    let history_dir = || Ok(machine.places()?.history());
    let host = Host {
        run: RunHost { args, runner: &compose, standby_launcher: &standby_launcher, check: None },
        server_runner: &runner_of_server,
        tools: &tools,
        tool_names: &tool_names,
        tool_request: &tool_request,
        config_files: &config_files,
        history_dir: &history_dir,
        #[cfg(target_os = "linux")]
        control: &crate::host_process::Control(machine),
        #[cfg(not(target_os = "linux"))]
        control: &codebox_cli::NoHostProcess,
        #[cfg(target_os = "linux")]
        machine: &crate::virtual_machine::Control(machine),
        #[cfg(not(target_os = "linux"))]
        machine: &codebox_cli::NoMachine,
        boxes: &boxes,
        sessions: &sessions,
    };
    let status = codebox_cli::main(host);
    machine.remove_scratch();
    status
}

fn command_line_runner(machine: &Arc<Machine>, options: RunnerOptions, origin: Origin) -> Runner {
    let checked = Arc::clone(machine);
    let builder = for_one_run(machine.builder(), machine, options, origin);
    builder.checks(move || checks(&checked)).build()
}

/// Adds the parts of a process that runs one program to a builder.
pub(crate) fn for_one_run(builder: Builder, machine: &Arc<Machine>, options: RunnerOptions, origin: Origin) -> Builder {
    let RunnerOptions { confinement, progress } = options;
    let confinement = OwnProcess { machine: Arc::clone(machine), choice: confinement, origin };
    let journal = Arc::clone(machine);
    let builder = builder.single_job().progress(progress).confinement(Arc::new(confinement));
    let builder = builder.journal(move || journal.journal());
    #[cfg(unix)]
    let builder = builder.automatic_images(Arc::new(crate::automatic_images::Images(Arc::clone(machine))));
    builder
}

/// Puts together a runner for several programs, whose guests run in workers.
fn server_runner(machine: &Arc<Machine>, options: ServerOptions) -> Runner {
    let ServerOptions { progress, tools } = options;
    let (dirs, journal) = (machine.places().ok().cloned(), Arc::clone(machine));
    let builder = Machine::of_server(move || dirs.clone().ok_or(AppDirsError)).builder().progress(progress);
    let builder = builder.journal(move || journal.journal());
    #[cfg(target_os = "linux")]
    let builder = match std::env::current_exe() {
        Ok(program) => builder.workers(program.with_file_name(crate::start_host::SMALL_PROGRAM)),
        Err(_) => builder,
    };
    let builder = match tools {
        Some(tools) => builder.tools(tools),
        None => builder,
    };
    builder.build()
}

/// Returns the start of a standby process. A program that cannot be verified is not run; the job is then run only once.
pub(crate) fn standby_launcher(machine: &Machine) -> Option<StandbyLauncher> {
    let program = processes::complete_program().ok().filter(|program| program.is_file())?;
    let installed = machine.installation();
    let installed =
        installed.and_then(|installation| codebox_container::installed_agent_program(&installation.programs_dir()));
    let own = || codebox_container::agent_program(&machine.places().ok()?.containers()).ok();
    let launcher = installed.or_else(own)?;
    let command = launcher.command();
    // The program's descriptor must stay open until the process has started.
    std::mem::forget(launcher);
    Some(StandbyLauncher { command, program })
}

/// Checks this machine, its directories, and the confinement that it offers.
fn checks(machine: &Machine) -> Vec<Check> {
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
pub fn cli_reference() -> String {
    codebox_cli::reference()
}

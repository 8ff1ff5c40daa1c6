//! The program for jobs in WebAssembly. It has no compiler, no container engines and no packages, so that it starts faster than the
//! complete program, which it executes in place of itself for a job that needs them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use codebox_cli::{RunHost, RunnerOptions};
use codebox_container::Flavour;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Capabilities, Instance, InstanceSpec, Isolation, Preparation,
    ResultKind, RunnerError, Unavailable,
};
use codebox_runner::Runner;
use codebox_service::catalog::Catalog as _;
use codebox_service::{Admitted, may_request_packages};

use crate::app_dirs::AppDirs;
use crate::command_line::{Origin, for_one_run, standby_launcher};
use crate::containers;
use crate::machine::{Machine, Use};
use crate::processes::complete_program;

/// Runs the command line of this process, or executes the complete program.
pub fn run_main() -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::name_service::use_built_in_services();
    let args: Vec<OsString> = env::args_os().collect();
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let compose = |options: RunnerOptions| runner(&machine, options);
    let standby_launcher = || standby_launcher(&machine);
    let admitted = |admitted: &Admitted| check(&machine, admitted);
    let host = RunHost { args: &args, runner: &compose, standby_launcher: &standby_launcher, admitted: &admitted };
    let status = codebox_cli::run_only(host);
    machine.remove_scratch();
    // Dropping memory that the system reclaims at exit would take a tenth of a short run.
    std::mem::forget(machine);
    match status {
        Some(status) => ExitCode::from(status),
        None => codebox_cli::fail(&execute_complete_program()),
    }
}

fn runner(machine: &Arc<Machine>, options: RunnerOptions) -> Runner {
    let of = Arc::clone(machine);
    let engines = move || {
        let engine = |flavour| Arc::new(Engine { flavour, machine: Arc::clone(&of) }) as Arc<dyn Backend>;
        Ok(Flavour::ALL.map(engine).to_vec())
    };
    for_one_run(machine.builder_of_first_tier().backends(engines), machine, options, Origin::Start).build()
}

/// Executes the complete program unless all parts that a job certainly needs are here: a runtime that is prepared completely, and no
/// packages.
fn check(machine: &Machine, admitted: &Admitted) -> Result<(), RunnerError> {
    let job = admitted.job();
    let language = job.language.runtime_language();
    let is_prepared = || Ok::<_, RunnerError>(machine.catalog()?.is_ready(language, Preparation::Complete));
    if job.isolations.contains(Isolation::Wasm) && !may_request_packages(admitted) && is_prepared()? {
        return Ok(());
    }
    machine.remove_scratch();
    Err(execute_complete_program())
}

/// Executes the complete program with the arguments of this process. Returns only if that fails.
fn execute_complete_program() -> RunnerError {
    let args: Vec<OsString> = env::args_os().collect();
    let (name, rest) = args.split_first().map_or((OsStr::new("codebox"), &[][..]), |(name, rest)| (name, rest));
    let line = match complete_program() {
        Ok(program) => {
            let error = Command::new(&program).arg0(name).args(rest).exec();
            format!("cannot start {}: {error}; install codebox again", program.display())
        }
        Err(error) => format!("cannot find the directory of this program: {error}"),
    };
    RunnerError::new(ResultKind::InternalError, line)
}

/// A container engine, which only the complete program can use. The first use executes that program.
struct Engine {
    flavour: Flavour,
    machine: Arc<Machine>,
}

impl Engine {
    fn execute_complete_program(&self) -> RunnerError {
        self.machine.remove_scratch();
        execute_complete_program()
    }
}

impl Backend for Engine {
    fn id(&self) -> BackendId {
        self.flavour.id()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Container
    }

    fn may_be_available(&self) -> bool {
        containers::may_be_available(self.flavour)
    }

    /// Executes the complete program: no job has started when backends are probed.
    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        let error = self.execute_complete_program();
        let unavailable = Unavailable { reason: error.message().to_owned(), fix: "install codebox again".to_owned() };
        Box::pin(std::future::ready(Err(unavailable)))
    }

    fn open<'a>(&'a self, _spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        let detail = "the program was not found available".to_owned();
        let error = BackendError::Input { subject: self.flavour.as_str().to_owned(), detail, source: None };
        Box::pin(std::future::ready(Err(error)))
    }
}

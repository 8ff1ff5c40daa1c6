//! The program for jobs in WebAssembly. It has no compiler, no container engines and no packages, so that it starts faster than the
//! complete program, which it executes in place of itself for a job that needs them.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;

use codebox_cli::{CheckParts, RunHost, RunnerOptions};
use codebox_container::Flavour;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Capabilities, ContainerHost, EnforcementLevel, Instance, InstanceSpec,
    Isolation, LimitKind, Preparation, ResultKind, RunnerError, RunningContainer, Unavailable,
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
    let check = Check(&machine);
    let host = RunHost { args: &args, runner: &compose, standby_launcher: &standby_launcher, check: Some(&check) };
    let status = codebox_cli::run_only(host);
    let status = status.map_or_else(|| codebox_cli::fail(&execute_complete_program(&machine)), ExitCode::from);
    machine.remove_scratch();
    // Dropping memory that the system reclaims at exit would take a tenth of a short run.
    std::mem::forget(machine);
    status
}

fn runner(machine: &Arc<Machine>, options: RunnerOptions) -> Runner {
    let of = Arc::clone(machine);
    let engines = move || {
        let engine = |flavour| Arc::new(Engine { flavour, machine: Arc::clone(&of) }) as Arc<dyn Backend>;
        Ok(Flavour::ALL.map(engine).to_vec())
    };
    for_one_run(machine.builder_of_first_tier().backends(engines), machine, options, Origin::Start).build()
}

/// Executes the complete program for a job that needs parts which this one lacks.
struct Check<'m>(&'m Arc<Machine>);

impl CheckParts for Check<'_> {
    fn admitted(&self, admitted: &Admitted) -> Result<(), RunnerError> {
        let job = admitted.job();
        let is_module = job.language.spec().is_module;
        let is_possible = job.isolations.contains(Isolation::Wasm) && !may_request_packages(admitted) && !is_module;
        if is_possible { Ok(()) } else { Err(execute_complete_program(self.0)) }
    }

    fn planned(
        &self,
        admitted: &Admitted,
        is_prepared: &dyn Fn() -> Result<bool, RunnerError>,
    ) -> Result<(), RunnerError> {
        let language = admitted.job().language.runtime_language();
        // Code that is missing is compiled by a standby process, if there can be one.
        let has_all_code = || Ok::<_, RunnerError>(self.0.catalog()?.is_ready(language, Preparation::Complete));
        if is_prepared()? && (has_all_code()? || standby_launcher(self.0).is_some()) {
            return Ok(());
        }
        Err(execute_complete_program(self.0))
    }
}

/// Executes the complete program with the arguments of this process. Returns only if that fails.
fn execute_complete_program(machine: &Machine) -> RunnerError {
    let args: Vec<OsString> = env::args_os().collect();
    let (name, rest) = args.split_first().map_or((OsStr::new("codebox"), &[][..]), |(name, rest)| (name, rest));
    let failed = |program: &Path, error: &io::Error| {
        let line = format!("cannot start {}: {error}; install codebox again", program.display());
        RunnerError::new(ResultKind::InternalError, line)
    };
    let program = match complete_program() {
        Ok(program) => program,
        Err(error) => return failed(Path::new("the complete program"), &error),
    };
    // A job that goes on without it needs the private directories.
    if let Err(error) = std::fs::metadata(&program) {
        return failed(&program, &error);
    }
    if let Ok(analyzer) = machine.analyzer() {
        analyzer.close();
    }
    machine.remove_scratch();
    let mut command = Command::new(&program);
    command.arg0(name).args(rest).env_remove(codebox_cli::STANDBY_VARIABLE);
    failed(&program, &command.exec())
}

/// A container engine, which only the complete program can use. The first use executes that program.
struct Engine {
    flavour: Flavour,
    machine: Arc<Machine>,
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

    fn containers(&self) -> Option<&dyn ContainerHost> {
        Some(self)
    }

    /// Executes the complete program: no job has started when backends are probed.
    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        let error = execute_complete_program(&self.machine);
        let unavailable = Unavailable { reason: error.message().to_owned(), fix: "install codebox again".to_owned() };
        Box::pin(std::future::ready(Err(unavailable)))
    }

    fn open<'a>(&'a self, _spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        let detail = "only the complete program can use it; install codebox again".to_owned();
        let error = BackendError::Input { subject: self.flavour.as_str().to_owned(), detail, source: None };
        Box::pin(std::future::ready(Err(error)))
    }
}

impl ContainerHost for Engine {
    /// Executes the complete program: no job has started when containers are searched for.
    fn inspect<'a>(&'a self, _id: &'a str) -> BoxFuture<'a, Result<RunningContainer, BackendError>> {
        let error = execute_complete_program(&self.machine);
        let (subject, detail) = (self.flavour.as_str().to_owned(), error.message().to_owned());
        Box::pin(std::future::ready(Err(BackendError::Input { subject, detail, source: None })))
    }

    fn limits(&self) -> BTreeMap<LimitKind, EnforcementLevel> {
        BTreeMap::new()
    }
}

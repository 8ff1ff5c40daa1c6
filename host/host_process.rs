//! The host process of the command line: it has the code of the runtimes loaded, and forks a worker for each run.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use codebox_cli::{HostControl, HostStatus};
use codebox_core::{Language, Preparation, ResultKind, RunnerError, exit};
use codebox_runtimes::RuntimeCatalog;
use codebox_service::config::{HostProcess, read_user};
use codebox_wasm::{Engine, RuntimeState};
use codebox_zygote::{Options, Place, Work};

use crate::app_dirs::{AppDirs, AppDirsError};
use crate::command_line::{self, Origin};
use crate::machine::{Machine, Use};
use crate::processes::start_compiling_rest;
use crate::start_host;
use crate::work;

/// Time between two runs within which the second one starts a host process.
const PERIOD: Duration = Duration::from_secs(60);

/// Number of runs after which a host process is replaced.
const MAX_RUNS: u64 = 4096;

/// Time after which a host process is replaced.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Maximum number of runs in progress for each processor.
const RUNS_PER_PROCESSOR: usize = 16;

/// Returns the place of the host process.
fn place(dirs: &AppDirs) -> Place {
    Place::below(&dirs.cache)
}

/// Starts a host process if the last run was less than a minute ago, or if the configuration asks for it. Without a host
/// process, later runs are only slower.
pub(crate) fn start_if_due(machine: &Machine) {
    let (Ok(dirs), Ok(settings)) = (machine.places(), machine.settings()) else { return };
    let HostProcess { enabled, autostart, .. } = settings.host;
    let place = place(dirs);
    if !enabled || !start_host::is_enabled() || place.is_in_use() {
        return;
    }
    let is_recent = place.record_run(PERIOD).unwrap_or(false);
    if is_recent || autostart {
        let _ = start();
        start_compiling_rest(machine);
    }
}

/// Closes all descriptors except for the standard streams, at the start of a process that does not use them.
pub(crate) fn close_inherited_descriptors() {
    // SAFETY: this process has opened nothing that it still uses.
    let _ = unsafe { codebox_zygote::close_other_descriptors() };
}

/// Starts a host process of this user and program, and returns it.
fn start() -> io::Result<std::process::Child> {
    let dirs = AppDirs::from_env().map_err(io::Error::other)?;
    start_host::start(&start_host::own_complete_program()?, &dirs)
}

/// Serves runs in this process.
pub(crate) fn serve() -> Result<(), RunnerError> {
    let dirs = AppDirs::from_env()?;
    let settings = read_user(&dirs.config_file())?.host;
    if !settings.enabled {
        return Ok(());
    }
    let options = Options {
        idle_limit: settings.idle.at().unwrap_or(Duration::MAX),
        max_active: RUNS_PER_PROCESSOR * thread::available_parallelism().map_or(1, usize::from),
        max_runs: MAX_RUNS,
        max_age: MAX_AGE,
        watched: watched(&dirs)?,
    };
    let work = Work {
        load: &load,
        prepare: &prepare,
        run: &run,
        discard: &|prepared: Prepared| prepared.machine.remove_scratch(),
        fail: &|error| {
            let _ = codebox_cli::fail(&RunnerError::of(ResultKind::InternalError, error));
            exit::FAILURE
        },
        renew: &|| drop(start()),
    };
    // SAFETY: this process has only this thread, and has opened nothing that it still uses.
    let served = unsafe { codebox_zygote::serve(&place(&dirs), &options, &work) };
    served.map(drop).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))
}

/// Returns the files whose change requires another host process: the configuration, and the lists of what is installed and
/// prepared.
fn watched(dirs: &AppDirs) -> Result<Vec<PathBuf>, RunnerError> {
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let stores = machine.catalog()?.stores().iter();
    let manifests = stores.flat_map(|(_, store)| store.manifests());
    Ok(std::iter::once(dirs.config_file()).chain(manifests).chain([machine.catalog()?.added_dir()]).collect())
}

/// State that all workers share.
struct Loaded {
    /// `None` if no runtime can be used, which each run reports.
    shared: Option<Shared>,
}

/// The engine with the code of the runtimes, and the catalog of the directories in which they are.
struct Shared {
    dirs: AppDirs,
    engine: Engine,
    catalog: Arc<RuntimeCatalog>,
}

/// Loads the compiled code of all runtimes. A runtime that is damaged is reported by the run that needs it.
fn load() -> Loaded {
    let load = || {
        let dirs = AppDirs::from_env().ok()?;
        let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
        let engine = Engine::new().ok()?;
        let _ = machine.engine.set(engine.clone());
        let catalog = Arc::clone(machine.catalog().ok()?);
        for (_, store) in catalog.stores() {
            let _ = store.keep_code();
        }
        Some(Shared { dirs, engine, catalog })
    };
    Loaded { shared: load() }
}

/// The language for whose programs workers are prepared.
const MAPPED_AHEAD: Language = Language::Python;

/// A worker without a run.
struct Prepared {
    machine: Arc<Machine>,
    /// The directories for which the machine was prepared.
    dirs: Option<AppDirs>,
}

/// Prepares a worker for a run in the directories of the host process.
fn prepare(loaded: &Loaded) -> Prepared {
    let machine = Machine::new(Use::CommandLine, AppDirs::from_env);
    let Some(Shared { dirs, engine, catalog }) = &loaded.shared else { return Prepared { machine, dirs: None } };
    let _ = machine.engine.set(engine.clone());
    let _ = machine.catalog.set(Arc::clone(catalog));
    if let Ok(wasm) = machine.wasm() {
        wasm.map_ahead(&MAPPED_AHEAD);
    }
    Prepared { machine, dirs: Some(dirs.clone()) }
}

/// Checks the files of the memory that was mapped ahead, as every process does before it maps them. Returns false if they
/// may have changed since.
fn is_unchanged(machine: &Machine) -> bool {
    let Ok(wasm) = machine.wasm() else { return false };
    let Some(store) = wasm.store(&MAPPED_AHEAD) else { return true };
    let Some(image) = store.spec().image.first() else { return true };
    store.invalidate();
    match store.state(Preparation::Image(&image.name)) {
        RuntimeState::Ready => true,
        // Without changed files, no memory was mapped.
        RuntimeState::Missing | RuntimeState::Unprepared | RuntimeState::Damaged(_) => false,
    }
}

/// Runs a command line, or a job of a library, in a prepared worker. If the worker was prepared for other directories or other
/// files than the run finds, its preparation is discarded.
fn run(prepared: Prepared, args: Vec<OsString>) -> u8 {
    let Prepared { machine, dirs } = prepared;
    let requested = work::requested_dirs(&args);
    let wanted = requested.clone().or_else(|| AppDirs::from_env().ok());
    let machine = if dirs == wanted && is_unchanged(&machine) {
        machine
    } else {
        machine.remove_scratch();
        Machine::new(Use::CommandLine, move || wanted.clone().ok_or(AppDirsError))
    };
    match requested {
        Some(_) => work::run(&machine),
        None => command_line::run(&machine, &args, Origin::HostProcess),
    }
}

/// The host process, for the commands that control it.
pub(crate) struct Control<'m>(pub &'m Machine);

impl Control<'_> {
    fn place(&self) -> Result<Place, RunnerError> {
        self.0.places().map(place)
    }
}

fn control_error(error: &codebox_zygote::ControlError) -> RunnerError {
    RunnerError::of(ResultKind::InternalError, error)
}

impl HostControl for Control<'_> {
    fn status(&self) -> Result<Option<HostStatus>, RunnerError> {
        let status = codebox_zygote::status(&self.place()?).map_err(|error| control_error(&error))?;
        Ok(status.map(|status| HostStatus {
            pid: status.pid,
            runs: status.runs,
            active: status.active,
            age: Duration::from_secs(status.age),
            idle_limit: (status.idle_limit != u64::MAX).then(|| Duration::from_secs(status.idle_limit)),
        }))
    }

    fn start(&self) -> Result<bool, RunnerError> {
        if !self.0.settings()?.host.enabled {
            let text = "the configuration disables the host process; set host.enabled to true in config.toml";
            return Err(RunnerError::new(ResultKind::InvalidRequest, text.to_owned()));
        }
        if self.status()?.is_some() {
            return Ok(false);
        }
        let failed = |error: io::Error| {
            RunnerError::new(ResultKind::InternalError, format!("cannot start the host process: {error}"))
        };
        let mut process = start().map_err(failed)?;
        // The end of the output shows that the process accepts runs, or has failed.
        if let Some(output) = &mut process.stdout {
            output.read_to_end(&mut Vec::new()).map_err(failed)?;
        }
        match self.status()? {
            Some(_) => {
                start_compiling_rest(self.0);
                Ok(true)
            }
            None => Err(failed(io::Error::other("it ended before it accepted runs"))),
        }
    }

    fn stop(&self) -> Result<bool, RunnerError> {
        codebox_zygote::stop(&self.place()?).map_err(|error| control_error(&error))
    }
}

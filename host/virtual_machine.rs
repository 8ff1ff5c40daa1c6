//! The virtual machine of the user: the process that keeps it, and its uses by the backend for containers and by the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use codebox_cli::{MachineControl, MachineStatus, RunningMachine};
use codebox_container::{EngineMachine, MachineEngine, Placed, PlacedDir};
use codebox_core::{BoxFuture, Limit, Progress, ResultKind, RunnerError, Silent, Sweep, Unavailable};
use codebox_service::config::{Settings, read_user};
use codebox_vm::{
    CommandOutput, DEFAULT_IDLE, Exec, ImageError, PlaceRequest, Provider, ShareSpec, VmClient, VmError, VmImage,
    VmSettings, VmSpec, VmState, end_abandoned, keep_vm,
};

use crate::app_dirs::AppDirs;
use crate::host_process::close_inherited_descriptors;
use crate::machine::Machine;
use crate::processes::{complete_program, own_program};
use crate::start_host::COMPLETE_PROGRAM;

/// Command of the process that keeps the machine.
pub(crate) const VM_COMMAND: &str = "keep-vm";

/// Time after which a thread for blocking work ends if it has none.
const IDLE_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Keeps the virtual machine in this process.
pub(crate) fn serve() -> Result<(), RunnerError> {
    close_inherited_descriptors();
    // The process outlives the terminal of the client that started it.
    let _ = rustix::process::setsid();
    codebox_cli::raise_open_file_limit();
    // Files that the machine creates have the modes that it gives them.
    rustix::process::umask(rustix::fs::Mode::empty());
    let failed = |error: &io::Error| RunnerError::of(ResultKind::InternalError, error);
    let dirs = AppDirs::from_env()?;
    let settings = settings(&dirs, &read_user(&dirs.config_file())?);
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    let executor = executor.worker_threads(2).thread_keep_alive(IDLE_THREAD_TIMEOUT).enable_all().build();
    let executor = executor.map_err(|error| failed(&error))?;
    let kept = executor.block_on(keep_vm(settings));
    executor.shutdown_background();
    kept.map_err(|error| failed(&error))
}

/// Returns the settings of the machine in these directories.
fn settings(dirs: &AppDirs, settings: &Settings) -> VmSettings {
    let dir = dirs.data.join("vm");
    let vm = &settings.vm;
    let cpus = std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    let default = VmSpec::for_machine(cpus, memory_in_mib());
    let in_units = |size: u64, shift: u32, default: u32| u32::try_from(size >> shift).unwrap_or(default);
    let spec = VmSpec {
        cpus: vm.cpus.unwrap_or(default.cpus),
        memory: vm.memory.map_or(default.memory, |size| in_units(size.get(), 20, default.memory)),
        disk: vm.disk.map_or(default.disk, |size| in_units(size.get(), 30, default.disk)),
    };
    let idle = match vm.idle {
        None => DEFAULT_IDLE,
        Some(Limit::At(time)) => time,
        Some(Limit::Unlimited) => Duration::MAX,
    };
    VmSettings { image: vm.image.clone().unwrap_or_else(|| dir.join("image")), dir, spec, idle }
}

fn memory_in_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    total.map_or(0, |kib: u64| kib >> 10)
}

/// Starts the process that keeps the machine.
fn start_keeper() -> io::Result<()> {
    let mut command = own_program(VM_COMMAND)?;
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(drop)
}

fn client(dirs: &AppDirs, configured: &Settings) -> VmClient {
    VmClient::new(settings(dirs, configured), Box::new(start_keeper))
}

/// Returns the machine for the backend for containers; `None` in another program that uses the library, which cannot start the process that keeps
/// the machine.
pub(crate) fn engine_machine(dirs: &AppDirs, settings: &Settings) -> Option<Arc<dyn EngineMachine>> {
    let is_own =
        complete_program().is_ok_and(|program| program.file_name().is_some_and(|name| name == COMPLETE_PROGRAM));
    is_own.then(|| {
        Arc::new(UserMachine { client: client(dirs, settings), progress: OnceLock::new() }) as Arc<dyn EngineMachine>
    })
}

/// The virtual machine of the user, as the backend for containers sees it.
struct UserMachine {
    client: VmClient,
    progress: OnceLock<Arc<dyn Progress>>,
}

impl UserMachine {
    fn provider(&self) -> Box<dyn Provider> {
        self.client.settings().provider()
    }

    fn open_image(&self) -> Result<VmImage, ImageError> {
        VmImage::open(&self.client.settings().image, self.provider().image_files())
    }

    fn has_image(&self) -> bool {
        self.open_image().is_ok()
    }
}

impl EngineMachine for UserMachine {
    fn may_be_available(&self) -> bool {
        self.has_image() && self.provider().probe().is_ok()
    }

    fn is_running(&self) -> bool {
        self.provider().state() == Ok(VmState::Running)
    }

    fn probe(&self) -> Result<(), Unavailable> {
        self.provider().probe().map_err(unavailable)?;
        self.open_image().map(drop).map_err(|error| unavailable(error.into()))
    }

    fn report_to(&self, progress: &Arc<dyn Progress>) {
        let _ = self.progress.set(Arc::clone(progress));
    }

    fn start(&self) -> BoxFuture<'_, Result<MachineEngine, Unavailable>> {
        Box::pin(async move {
            let progress: &dyn Progress = self.progress.get().map_or(&Silent, |progress| &**progress);
            let (ready, lease) = self.client.use_machine(progress).await.map_err(unavailable)?;
            Ok(MachineEngine { socket: ready.socket, user: ready.user, group: ready.group, guard: Box::new(lease) })
        })
    }

    fn sweep(&self, how: Sweep) -> BoxFuture<'_, Result<bool, Unavailable>> {
        Box::pin(async move { end_abandoned(self.client.settings(), how).await.map_err(unavailable) })
    }

    fn place(&self, dirs: Vec<PlacedDir>, files: Vec<PathBuf>) -> BoxFuture<'_, Result<Placed, Unavailable>> {
        Box::pin(async move {
            let request = |PlacedDir { path, access, is_constant }| ShareSpec { path, access, is_constant };
            let request = PlaceRequest { dirs: dirs.into_iter().map(request).collect(), files };
            let (paths, lease) = self.client.place(request, &Silent).await.map_err(unavailable)?;
            Ok(Placed { paths, guard: Box::new(lease) })
        })
    }
}

fn unavailable(error: VmError) -> Unavailable {
    Unavailable { reason: error.to_string(), fix: error.fix }
}

fn refused(error: VmError) -> RunnerError {
    RunnerError::new(ResultKind::EngineUnavailable, error.to_string()).with_fix(error.fix)
}

/// The virtual machine of the user, as the command line sees it.
pub(crate) struct Control<'m>(pub &'m Machine);

impl Control<'_> {
    fn client(&self) -> Result<VmClient, RunnerError> {
        Ok(client(self.0.places()?, self.0.settings()?))
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, VmError>>) -> Result<T, RunnerError> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let done = executor.block_on(work).map_err(refused);
        // A thread may still wait for standard input.
        executor.shutdown_background();
        done
    }
}

impl MachineControl for Control<'_> {
    fn up(&self, progress: &dyn Progress) -> Result<PathBuf, RunnerError> {
        let client = self.client()?;
        Ok(self.wait(client.use_machine(progress))?.0.socket)
    }

    fn install(&self, file: &Path) -> Result<PathBuf, RunnerError> {
        let client = self.client()?;
        let VmSettings { image, .. } = client.settings();
        let names = client.settings().provider().image_files();
        VmImage::install(file, image, names).map_err(|error| refused(error.into()))?;
        Ok(image.clone())
    }

    fn down(&self) -> Result<bool, RunnerError> {
        let client = self.client()?;
        if self.wait(client.down())? {
            return Ok(true);
        }
        if client.settings().provider().state().map_err(refused)? != VmState::Running {
            return Ok(false);
        }
        // The process that kept it was killed. Another one ends it in order.
        self.wait(async {
            client.use_machine(&Silent).await?;
            client.down().await
        })
    }

    fn status(&self) -> Result<MachineStatus, RunnerError> {
        let client = self.client()?;
        let provider = client.settings().provider();
        let (state, reason) = match provider.state().map_err(refused)? {
            VmState::Missing => ("missing", provider.probe().err().map(|error| error.to_string())),
            VmState::Stopped => ("stopped", None),
            VmState::Running => ("running", None),
            VmState::Damaged(reason) => ("damaged", Some(reason)),
        };
        let status = self.wait(client.status())?;
        let running = status.and_then(|status| {
            let facts = status.facts?;
            Some(RunningMachine {
                uptime: Duration::from_millis(facts.uptime_ms),
                memory: facts.memory,
                disk: facts.disk,
                uses: status.uses,
                shared: status.shared,
            })
        });
        Ok(MachineStatus { provider: provider.name().to_owned(), state, reason, running })
    }

    fn run(
        &self,
        words: Vec<String>,
        is_root: bool,
        has_started: &mut (dyn FnMut() + Send),
        progress: &dyn Progress,
    ) -> Result<i32, RunnerError> {
        let client = self.client()?;
        let mut write = |piece: CommandOutput| {
            let (bytes, mut to): (_, Box<dyn io::Write>) = match piece {
                CommandOutput::Stdout(bytes) => (bytes, Box::new(io::stdout())),
                CommandOutput::Stderr(bytes) => (bytes, Box::new(io::stderr())),
                CommandOutput::Ended(_) => return Ok(()),
            };
            to.write_all(&bytes)?;
            to.flush()
        };
        self.wait(client.run(Exec { argv: words, is_root }, tokio::io::stdin(), has_started, &mut write, progress))
    }

    fn reset(&self) -> Result<bool, RunnerError> {
        let client = self.client()?;
        let provider = client.settings().provider();
        if provider.state().map_err(refused)? == VmState::Missing {
            return Ok(false);
        }
        self.wait(client.down())?;
        provider.delete().map_err(refused)?;
        Ok(true)
    }

    fn log(&self) -> Result<String, RunnerError> {
        Ok(self.client()?.settings().provider().log())
    }
}

//! Workers of a library: processes of the installed program, each for one job.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::{Backend, ResultKind, RunnerError};
use codebox_runner::Detached;
use codebox_worker::{Launch, Launched, ProcessEnd, WorkerBackend, WorkerProcess};
use codebox_zygote::{BorrowedWorker, Place, WorkerCommand, WorkerEnd, borrow_worker};

use crate::app_dirs::AppDirs;
use crate::machine::Machine;
use crate::start_host;

/// Command of a worker. The next arguments are the directories for data, caches and configuration.
pub(crate) const WORKER_COMMAND: &str = "run-job";

/// Variables that a worker gets, beside its directories. It gets no others of this process, which may be secrets.
const VARIABLES: [&str; 3] = ["HOME", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// Interval at which the end of a process is awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Permissions that new files do not get if those of this process are unknown.
const PRIVATE: u32 = 0o077;

/// Returns the backend of the machine, with its guests in workers of this program.
pub(crate) fn backend(machine: &Arc<Machine>, command: &Path) -> Result<Arc<dyn Backend>, RunnerError> {
    // Workers have another working directory, and that of this process may change.
    let absolute =
        |path: &Path| std::path::absolute(path).map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error));
    let AppDirs { data, cache, config } = machine.places()?;
    let launcher = Launcher {
        command: absolute(command)?,
        dirs: AppDirs { data: absolute(data)?, cache: absolute(cache)?, config: absolute(config)? },
        is_host_enabled: machine.settings()?.host.enabled && start_host::is_enabled(),
        host: Mutex::new(None),
    };
    let backend = WorkerBackend::new(Arc::clone(machine.wasm()?) as _, Arc::new(launcher));
    let detached = Detached::all(vec![Arc::new(backend) as _], ());
    let missing = || RunnerError::new(ResultKind::InternalError, "the backend of workers is missing");
    detached.into_iter().next().ok_or_else(missing)
}

/// Start of workers for jobs in these directories.
struct Launcher {
    /// The installed command.
    command: PathBuf,
    dirs: AppDirs,
    is_host_enabled: bool,
    /// The host process that was started last, which is a child of this process.
    host: Mutex<Option<Child>>,
}

impl Launch for Launcher {
    fn launch(&self) -> io::Result<Launched> {
        let program = start_host::complete_program(&self.command)?;
        let (channel, other) = UnixStream::pair()?;
        let null = File::options().read(true).write(true).open("/dev/null")?;
        let [data, cache, config] = [&self.dirs.data, &self.dirs.cache, &self.dirs.config];
        let args = [WORKER_COMMAND.as_ref(), data.as_os_str(), cache.as_os_str(), config.as_os_str()];
        let env: Vec<(OsString, OsString)> =
            VARIABLES.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?))).collect();
        self.reap_host();
        if self.is_host_enabled {
            let args = std::iter::once(program.as_os_str()).chain(args).map(OsString::from).collect();
            let streams = [other.as_fd(), null.as_fd(), null.as_fd()];
            let command = WorkerCommand { args, env: env.clone(), umask: umask(), streams };
            let place = Place::below(&self.dirs.cache);
            // Without an answer of the host process, the worker is started directly, which reports other errors as well.
            if let Ok(Some(worker)) = borrow_worker(&place, &program, command) {
                return Ok(Launched { channel, process: Box::new(Borrowed(worker)) });
            }
            if !place.is_in_use() {
                self.start_host(&program);
            }
        }
        let mut command = Command::new(&program);
        command.args(args).env_clear().envs(env).current_dir("/");
        let streams = (null.try_clone()?, null);
        // A signal of the terminal is for this process, which ends the job.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let child = command.stdin(Stdio::from(std::os::fd::OwnedFd::from(other))).stdout(streams.0).stderr(streams.1);
        Ok(Launched { channel, process: Box::new(Started(child.spawn()?)) })
    }
}

impl Launcher {
    /// Starts the host process for later jobs, unless this process has started one that still runs. Without one, later jobs
    /// take longer.
    fn start_host(&self, program: &Path) {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        if host.is_none() {
            *host = start_host::start(program, &self.dirs).ok();
        }
    }

    /// Releases the host process that this process has started, if it has ended.
    fn reap_host(&self) {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        host.take_if(|child| !matches!(child.try_wait(), Ok(None)));
    }
}

/// Returns the permissions that new files of this process do not get. The call that returns them changes them as well, which
/// other threads would notice.
fn umask() -> u32 {
    let mut status = String::new();
    let read = File::open("/proc/self/status").and_then(|mut file| file.read_to_string(&mut status));
    let line = read.ok().and_then(|_| status.lines().find_map(|line| line.strip_prefix("Umask:")));
    line.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(PRIVATE)
}

impl Drop for Launcher {
    fn drop(&mut self) {
        self.reap_host();
    }
}

/// A worker of the host process.
struct Borrowed(BorrowedWorker);

impl WorkerProcess for Borrowed {
    fn wait(&mut self, timeout: Duration) -> Option<ProcessEnd> {
        Some(match self.0.wait(timeout)? {
            WorkerEnd::Exited(status) => ProcessEnd::Exited(i32::from(status)),
            WorkerEnd::Killed(signal) => ProcessEnd::Signalled(i32::from(signal)),
            WorkerEnd::Lost => ProcessEnd::HostEnded,
        })
    }
}

/// A worker that this process has started.
struct Started(Child);

impl WorkerProcess for Started {
    fn wait(&mut self, timeout: Duration) -> Option<ProcessEnd> {
        let until = Instant::now() + timeout;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return Some(end_of(status)),
                Ok(None) if Instant::now() < until => thread::sleep(POLL_INTERVAL),
                _ => return None,
            }
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It fails if the process has ended. The killed process ends at once.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn end_of(status: ExitStatus) -> ProcessEnd {
    match (status.signal(), status.code()) {
        (Some(signal), _) => ProcessEnd::Signalled(signal),
        (None, status) => status.map_or(ProcessEnd::Unknown, ProcessEnd::Exited),
    }
}

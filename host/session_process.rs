//! The process that keeps the sessions of the command line.

use std::env;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Job, ResultKind, RunReport, RunnerError, SecretName, SecretValue, SessionContainer, SessionInfo};
use codebox_runner::{Cell, CellIo, Resumption, SessionClient, SessionControl, SuspendedCell};
use codebox_service::JournalOptions;
use codebox_service::config::read_user;
use codebox_sessions::{Client, Options, Place};

use crate::app_dirs::AppDirs;
use crate::host_process::close_inherited_descriptors;
use crate::machine::{Machine, Use};
use crate::start_host::{COMPLETE_PROGRAM, SMALL_PROGRAM, environment_for};

/// Command of the process.
pub(crate) const SESSIONS_COMMAND: &str = "keep-sessions";

/// Time without a request after which a session is saved, and its interpreter released.
const PARK_AFTER: Duration = Duration::from_secs(60);

/// Time after which a thread for blocking work ends if it has none.
const IDLE_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Variables that the process gets beside those of its directories.
const VARIABLES: [&str; 4] = ["CODEBOX_HOST", "HOME", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// Keeps sessions in this process.
pub(crate) fn serve() -> Result<(), RunnerError> {
    close_inherited_descriptors();
    // The process outlives the terminal of the client that started it.
    let _ = rustix::process::setsid();
    // Each interpreter has several files open.
    codebox_cli::raise_open_file_limit();
    let dirs = AppDirs::from_env()?;
    let idle = read_user(&dirs.config_file())?.host.idle.at().unwrap_or(Duration::MAX);
    let failed = |error: &io::Error| RunnerError::of(ResultKind::InternalError, error);
    let program = env::current_exe().map_err(|error| failed(&error))?.with_file_name(SMALL_PROGRAM);
    let place = Place::below(&dirs.cache);
    let machine = Machine::new(Use::Library, move || Ok(dirs.clone()));
    let journal = Arc::clone(&machine);
    let runner = machine
        .builder()
        .workers(program)
        .journal(move || Ok(JournalOptions { keeps_log_open: true, ..journal.journal()? }))
        .build();
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    let executor = executor.worker_threads(2).thread_keep_alive(IDLE_THREAD_TIMEOUT).enable_all();
    let executor = executor.build();
    let executor = executor.map_err(|error| failed(&error))?;
    let is_ready = || {
        // The client that started this process waits for the end of the output.
        if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&null);
        }
    };
    let options = Options { park_after: PARK_AFTER.min(idle), idle_limit: idle };
    let served = executor.block_on(codebox_sessions::serve(&place, Arc::new(runner), options, is_ready));
    // A cell that computes must not delay the end.
    executor.shutdown_background();
    served.map_err(|error| failed(&error))
}

/// Starts the process, and waits until it accepts clients or has ended.
fn start(dirs: &AppDirs) -> io::Result<()> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, "no environment variable selects its directories");
    let program = env::current_exe()?.with_file_name(COMPLETE_PROGRAM);
    let own = VARIABLES.iter().filter_map(|name| Some((*name, env::var_os(name)?)));
    let mut command = Command::new(program);
    command.arg(SESSIONS_COMMAND).env_clear().envs(own).envs(environment_for(dirs).ok_or_else(unknown)?);
    // Memory that one thread has released would not be used by another.
    command.env("MALLOC_ARENA_MAX", "1");
    command.current_dir(Path::new("/")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    if let Some(output) = &mut child.stdout {
        output.read_to_end(&mut Vec::new())?;
    }
    io::stdout().flush()
}

/// The process, for the commands that use it.
pub(crate) struct Control(pub Arc<Machine>);

impl SessionControl for Control {
    fn connect(&self) -> Result<Box<dyn SessionClient>, RunnerError> {
        let dirs = self.0.places()?;
        let mut client = Client::connect_or_start(&Place::below(&dirs.cache), || start(dirs))?;
        client.use_audit(self.0.journal()?.audit)?;
        Ok(Box::new(Connected(client)))
    }

    fn connect_if_running(&self) -> Result<Option<Box<dyn SessionClient>>, RunnerError> {
        let mut client = Client::connect(&Place::below(&self.0.places()?.cache))?;
        if let Some(client) = &mut client {
            client.use_audit(self.0.journal()?.audit)?;
        }
        Ok(client.map(|client| Box::new(Connected(client)) as Box<dyn SessionClient>))
    }
}

struct Connected(Client);

impl SessionClient for Connected {
    fn create(&mut self, job: Job, container: SessionContainer) -> Result<String, RunnerError> {
        self.0.create(job, container)
    }

    fn exec(&mut self, id: &str, cell: Cell, io: CellIo<'_>) -> Result<RunReport, RunnerError> {
        self.0.exec(id, cell, io)
    }

    fn resume(
        &mut self,
        id: &str,
        position: u64,
        resumption: Resumption,
        io: CellIo<'_>,
    ) -> Result<RunReport, RunnerError> {
        self.0.resume(id, position, resumption, io)
    }

    fn suspended(&mut self, id: &str) -> Result<SuspendedCell, RunnerError> {
        self.0.suspended(id)
    }

    fn discard(&mut self, id: &str, position: Option<u64>) -> Result<(), RunnerError> {
        self.0.discard(id, position)
    }

    fn fork(&mut self, id: &str, count: u32) -> Result<Vec<String>, RunnerError> {
        self.0.fork(id, count)
    }

    fn checkpoint(&mut self, id: &str, name: &str) -> Result<(), RunnerError> {
        self.0.checkpoint(id, name)
    }

    fn restore(&mut self, id: &str, name: &str) -> Result<(), RunnerError> {
        self.0.restore(id, name)
    }

    fn export(&mut self, id: &str, name: Option<&str>, to: &mut dyn io::Write) -> Result<(), RunnerError> {
        self.0.export(id, name, to)
    }

    fn import(&mut self, job: Job, from: &mut dyn io::Read) -> Result<String, RunnerError> {
        self.0.import(job, from)
    }

    fn give_secrets(&mut self, id: &str, values: Vec<(SecretName, SecretValue)>) -> Result<(), RunnerError> {
        self.0.give_secrets(id, values)
    }

    fn park(&mut self, id: &str) -> Result<(), RunnerError> {
        self.0.park(id)
    }

    fn stop(&mut self, id: &str) -> Result<(), RunnerError> {
        self.0.stop(id)
    }

    fn list(&mut self) -> Result<Vec<SessionInfo>, RunnerError> {
        self.0.list()
    }

    fn end(&mut self) -> Result<(), RunnerError> {
        self.0.end()
    }
}

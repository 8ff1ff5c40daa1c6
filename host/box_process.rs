//! The process of a box of the command line.

use std::fs::File;
use std::io::{self, Write as _};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{BoxCommand, BoxInfo, ResultKind, RunReport, RunnerError, exit};
use codebox_runner::{BoxControl, BoxIo, BoxLogEntry, BoxStart};
use codebox_service::JournalOptions;
use codebox_sessions::{BoxPlace, keep_box};
use codebox_worker::Failure;

use crate::app_dirs::AppDirs;
use crate::host_process::close_inherited_descriptors;
use crate::machine::{Machine, Use};
use crate::processes::{input, own_program};

/// Command of the process. Its standard input is a [`BoxStart`].
pub(crate) const BOX_COMMAND: &str = "keep-box";

/// Time after which a thread for blocking work ends if it has none.
const IDLE_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Line on the standard output of the process: facts about the box that accepts commands, or the failure to start it.
type Started = Result<BoxInfo, Failure>;

/// Keeps a box in this process, and returns the exit status. An error before the box accepts commands is reported to the client that has
/// started this process.
pub(crate) fn serve() -> u8 {
    close_inherited_descriptors();
    // The process outlives the terminal of the client that started it.
    let _ = rustix::process::setsid();
    match keep() {
        Ok(()) => 0,
        Err(error) => {
            report(&Err(error.into()));
            exit::FAILURE
        }
    }
}

fn keep() -> Result<(), RunnerError> {
    // Each command has several files open.
    codebox_cli::raise_open_file_limit();
    let failed = |error: &io::Error| RunnerError::of(ResultKind::InternalError, error);
    let start: BoxStart =
        serde_json::from_str(&input()?).map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
    let dirs = AppDirs::from_env()?;
    let place = BoxPlace::below(&dirs.cache);
    let machine = Machine::new(Use::Library, move || Ok(dirs.clone()));
    let journal = Arc::clone(&machine);
    let runner =
        machine.builder().journal(move || Ok(JournalOptions { keeps_log_open: true, ..journal.journal()? })).build();
    let mut executor = tokio::runtime::Builder::new_multi_thread();
    let executor = executor.worker_threads(2).thread_keep_alive(IDLE_THREAD_TIMEOUT).enable_all().build();
    let executor = executor.map_err(|error| failed(&error))?;
    let kept = executor.block_on(keep_box(&place, Arc::new(runner), start, |info| report(&Ok(info.clone()))));
    executor.shutdown_background();
    machine.remove_scratch();
    kept
}

/// Writes the line for the client, which waits for it, and closes standard output. Returns false if the client is gone.
fn report(started: &Started) -> bool {
    let mut stdout = io::stdout();
    let line = serde_json::to_string(started).unwrap_or_default();
    let is_written = writeln!(stdout, "{line}").and_then(|()| stdout.flush()).is_ok();
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    is_written
}

/// The processes of the boxes, for the commands that use them.
pub(crate) struct Control(pub Arc<Machine>);

impl Control {
    fn place(&self) -> Result<BoxPlace, RunnerError> {
        Ok(BoxPlace::below(&self.0.places()?.cache))
    }
}

impl BoxControl for Control {
    fn start(&self, start: &BoxStart) -> Result<BoxInfo, RunnerError> {
        let failed = |error: &dyn std::fmt::Display| {
            RunnerError::new(ResultKind::InternalError, format!("cannot start the process of the box: {error}"))
        };
        let text = serde_json::to_string(start).map_err(|error| failed(&error))?;
        let mut command = own_program(BOX_COMMAND).map_err(|error| failed(&error))?;
        command.current_dir("/").env("MALLOC_ARENA_MAX", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
        }
        let stdout = child.stdout.take().ok_or_else(|| failed(&"it has no output"))?;
        let output = io::read_to_string(stdout).map_err(|error| failed(&error))?;
        match serde_json::from_str::<Started>(&output) {
            Ok(Ok(info)) => Ok(info),
            Ok(Err(failure)) => Err(failure.into()),
            Err(_) => Err(failed(&"it has ended")),
        }
    }

    fn list(&self) -> Result<Vec<BoxInfo>, RunnerError> {
        self.place()?.list()
    }

    fn exec(&self, name: &str, command: BoxCommand, io: BoxIo<'_>) -> Result<RunReport, RunnerError> {
        self.place()?.exec(name, command, io)
    }

    fn log(&self, name: &str) -> Result<Vec<BoxLogEntry>, RunnerError> {
        self.place()?.log(name)
    }

    fn stop(&self, name: &str) -> Result<(), RunnerError> {
        self.place()?.stop(name)
    }
}

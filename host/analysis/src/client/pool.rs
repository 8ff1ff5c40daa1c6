//! The analyzer processes of this process, and whose turn it is.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use codebox_files::ProgramFile;

use super::error::AnalysisError;
use super::process::{Broken, Process};
use crate::protocol::Report;

/// The analyzer, as it was built with this crate; empty in a build for a system that has none.
const ANALYZER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/codebox-analyzer"));

/// Tells builds of the analyzer apart, so that each has a file of its own.
const DIGEST: &str = env!("CODEBOX_ANALYZER_DIGEST");

/// Most analyzers at once, whatever the number of processors.
const MOST: usize = 4;

/// The program of an analyzer.
pub(super) enum Program {
    /// The built-in one.
    BuiltIn(ProgramFile),
    /// At this path.
    At(PathBuf),
}

impl Program {
    /// A command that starts it.
    pub(super) fn command(&self) -> Command {
        match self {
            Self::BuiltIn(file) => file.command(),
            Self::At(path) => Command::new(path),
        }
    }

    /// The built-in one, installed below `folder`.
    fn below(folder: &Path) -> io::Result<Self> {
        if ANALYZER.is_empty() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this build has no analyzer for this system"));
        }
        ProgramFile::install(folder, &format!("codebox-analyzer-{DIGEST}"), ANALYZER).map(Self::BuiltIn)
    }
}

/// The place of the program file.
pub(super) enum Source {
    /// The built-in program, put below this directory.
    BuiltIn(PathBuf),
    /// Another program at this path.
    At(PathBuf),
}

/// Analyzer processes, kept between texts.
pub(super) struct Pool {
    source: Source,
    program: OnceLock<Program>,
    most: usize,
    timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Process>,
    /// Processes that serve a text or are being started.
    busy: usize,
    /// The thread that starts the first process ahead of time.
    ahead: Option<JoinHandle<()>>,
    /// The error of starting it, for texts that come when none may be started any more.
    failed: Option<AnalysisError>,
    /// Set once no process may be started any more.
    is_closed: bool,
}

/// A process that is taken; it counts as busy until this value is dropped.
struct Turn<'p> {
    pool: &'p Pool,
    process: Option<Process>,
}

impl Pool {
    pub(super) fn new(source: Source, timeout: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            source,
            program: OnceLock::new(),
            most: cores.min(MOST),
            timeout,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts the first process on a thread of its own, unless there is one.
    pub(super) fn start_ahead(self: &Arc<Self>) {
        let mut state = self.state();
        if state.is_closed || state.busy > 0 || !state.idle.is_empty() || state.ahead.is_some() {
            return;
        }
        let pool = Arc::clone(self);
        let start = move || {
            let started = pool.start();
            let mut state = pool.state();
            state.busy -= 1;
            match started {
                Ok(process) => state.idle.push(process),
                Err(error) => state.failed = Some(error),
            }
            drop(state);
            pool.changed.notify_one();
        };
        // Where there is no thread for it, it is started when it is needed.
        if let Ok(thread) = std::thread::Builder::new().name("codebox-analysis".into()).spawn(start) {
            state.busy += 1;
            state.ahead = Some(thread);
        }
    }

    /// Starts no process from now on; those that are there go on, with the one that is being started ahead.
    pub(super) fn close(&self) {
        let ahead = self.state().ahead.take();
        // A thread that panicked has started nothing.
        let _ = ahead.map(JoinHandle::join);
        self.state().is_closed = true;
    }

    /// Has one process serve a request. One that has ended in the meantime is replaced once.
    pub(super) fn exchange(&self, request: &[u8], most_answer: usize) -> Result<(Report, Vec<u8>), AnalysisError> {
        let deadline = Instant::now() + self.timeout;
        let mut turn = self.turn(deadline)?;
        let mut is_fresh = false;
        loop {
            let process = match &mut turn.process {
                Some(process) => process,
                none => {
                    is_fresh = true;
                    none.insert(self.start()?)
                }
            };
            match process.exchange(request, most_answer, deadline) {
                Ok(answered) => {
                    if !process.serves_again() {
                        turn.process = None;
                    }
                    return Ok(answered);
                }
                Err(Broken::Timeout) => {
                    turn.process = None;
                    return Err(AnalysisError::Timeout(self.timeout));
                }
                Err(Broken::Failed(why)) => {
                    turn.process = None;
                    if is_fresh {
                        return Err(AnalysisError::Analyzer(why));
                    }
                }
            }
        }
    }

    /// Waits for an idle process, or for the right to start one.
    fn turn(&self, deadline: Instant) -> Result<Turn<'_>, AnalysisError> {
        let mut state = self.state();
        loop {
            // One that is being started ahead is waited for.
            let is_starting = state.ahead.as_ref().is_some_and(|thread| !thread.is_finished()) && state.busy == 1;
            let process = state.idle.pop();
            if process.is_some() || (state.busy < self.most && !is_starting) {
                state.busy += 1;
                return Ok(Turn { pool: self, process });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AnalysisError::Timeout(self.timeout));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn start(&self) -> Result<Process, AnalysisError> {
        let failed = |error: io::Error| AnalysisError::Start(error.to_string());
        {
            let state = self.state();
            if state.is_closed {
                let confined = || AnalysisError::Start("this process is confined and starts no other".to_owned());
                return Err(state.failed.clone().unwrap_or_else(confined));
            }
        }
        let program = match self.program.get() {
            Some(program) => program,
            None => {
                let program = match &self.source {
                    Source::BuiltIn(folder) => Program::below(folder).map_err(failed)?,
                    Source::At(path) => Program::At(path.clone()),
                };
                self.program.get_or_init(|| program)
            }
        };
        Process::start(program).map_err(failed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let process = self.process.take();
        let mut state = self.pool.state();
        state.busy -= 1;
        state.idle.extend(process);
        drop(state);
        self.pool.changed.notify_one();
    }
}

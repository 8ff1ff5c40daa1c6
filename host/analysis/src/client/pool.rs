//! The pool of analyzer processes.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::error::AnalysisError;
use super::process::{ExchangeError, Process};
use super::program::Program;
use crate::protocol::Report;

/// The largest number of analyzer processes, whatever the number of processors.
const MAX_PROCESSES: usize = 4;

/// The source of the program file.
pub(super) enum ProgramSource {
    /// The embedded program, installed together with codebox or below a directory.
    BuiltIn { installed: Option<PathBuf>, folder: PathBuf },
    /// Another program at this path.
    At(PathBuf),
}

/// A pool of analyzer processes that are kept between texts.
pub(super) struct Pool {
    source: ProgramSource,
    program: OnceLock<Program>,
    max_processes: usize,
    timeout: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Process>,
    /// The number of processes that serve a text or are being started.
    busy: usize,
    /// The thread that starts the first process in the background.
    starting_thread: Option<JoinHandle<()>>,
    /// The error of that start, for texts that arrive after the pool is closed.
    failed: Option<AnalysisError>,
    /// True once no further process may be started.
    is_closed: bool,
}

/// A process in use, which counts as busy until the value is dropped.
struct ProcessLease<'p> {
    pool: &'p Pool,
    process: Option<Process>,
}

impl Pool {
    pub(super) fn new(source: ProgramSource, timeout: Duration) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            source,
            program: OnceLock::new(),
            max_processes: cores.min(MAX_PROCESSES),
            timeout,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Starts the first process on a background thread, unless a process exists.
    pub(super) fn prestart(self: &Arc<Self>) {
        let mut state = self.state();
        if state.is_closed || state.busy > 0 || !state.idle.is_empty() || state.starting_thread.is_some() {
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
        // If the thread cannot be created, the process is started on demand.
        if let Ok(thread) = std::thread::Builder::new().name("codebox-analysis".into()).spawn(start) {
            state.busy += 1;
            state.starting_thread = Some(thread);
        }
    }

    /// Prevents the start of further processes. Existing processes stay, including the one that is being started.
    pub(super) fn close(&self) {
        let starting_thread = self.state().starting_thread.take();
        // A thread that panicked has not started a process.
        let _ = starting_thread.map(JoinHandle::join);
        self.state().is_closed = true;
    }

    /// Sends a request to a process and returns the answer. A process that has ended in the meantime is replaced once.
    pub(super) fn exchange(&self, request: &[u8], max_answer_len: usize) -> Result<(Report, Vec<u8>), AnalysisError> {
        let deadline = Instant::now() + self.timeout;
        let mut lease = self.lease(deadline)?;
        let mut is_fresh = false;
        loop {
            let process = match &mut lease.process {
                Some(process) => process,
                none => {
                    is_fresh = true;
                    none.insert(self.start()?)
                }
            };
            match process.exchange(request, max_answer_len, deadline) {
                Ok(answered) => {
                    if !process.is_reusable() {
                        lease.process = None;
                    }
                    return Ok(answered);
                }
                Err(ExchangeError::Timeout) => {
                    lease.process = None;
                    return Err(AnalysisError::Timeout(self.timeout));
                }
                Err(ExchangeError::Failed(why)) => {
                    lease.process = None;
                    if is_fresh {
                        return Err(AnalysisError::Analyzer(why));
                    }
                }
            }
        }
    }

    /// Waits for an idle process, or for the permission to start one.
    fn lease(&self, deadline: Instant) -> Result<ProcessLease<'_>, AnalysisError> {
        let mut state = self.state();
        loop {
            // A process that is being started in the background is awaited instead of starting another.
            let is_starting =
                state.starting_thread.as_ref().is_some_and(|thread| !thread.is_finished()) && state.busy == 1;
            let process = state.idle.pop();
            if process.is_some() || (state.busy < self.max_processes && !is_starting) {
                state.busy += 1;
                return Ok(ProcessLease { pool: self, process });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AnalysisError::Timeout(self.timeout));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn start(&self) -> Result<Process, AnalysisError> {
        let failed = |error: std::io::Error| AnalysisError::Start(error.to_string());
        {
            let state = self.state();
            if state.is_closed {
                let confined =
                    || AnalysisError::Start("this process is sandboxed and cannot start other processes".to_owned());
                return Err(state.failed.clone().unwrap_or_else(confined));
            }
        }
        let program = match self.program.get() {
            Some(program) => program,
            None => {
                let program = match &self.source {
                    ProgramSource::BuiltIn { installed, folder } => {
                        Program::find(installed.as_deref(), folder).map_err(failed)?
                    }
                    ProgramSource::At(path) => Program::At(path.clone()),
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

impl Drop for ProcessLease<'_> {
    fn drop(&mut self) {
        let process = self.process.take();
        let mut state = self.pool.state();
        state.busy -= 1;
        state.idle.extend(process);
        drop(state);
        self.pool.changed.notify_one();
    }
}

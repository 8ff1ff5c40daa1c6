use std::cell::OnceCell as LocalCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_analysis::{Analyzer, Budget};
use codebox_core::{Backend, BackendId, ExecIo, Language, ResultKind, RunReport, RunnerError};
use codebox_service::catalog::Catalog;
use codebox_service::image_choice::ImageFacts;
use codebox_service::{Admitted, Candidate, HostEnvironment, Program, Request, admit};
use tokio::sync::OnceCell;

use crate::builder::Builder;
use crate::front_end::{FrontEnd, Library, RunEnd};
use crate::offload::{Threads, no_executor};

/// Runner of jobs: in WebAssembly in this process if possible, otherwise in a container.
///
/// The first job in a language installs its runtime; later jobs start from its memory images. The image of a job
/// follows from the imports of its program. Images that are built during the lifetime of a runner are used only by
/// later runners. A runner can be shared between threads and runs jobs concurrently.
///
/// # Admission
/// Every request is admitted first, by the rules of the command line: its limits are checked against the ceilings of
/// the [policy](Builder::policy), its directories must exist and be free of links below the working directory, and no
/// grant may expose codebox's own files or the socket of a container engine. A check is left out by name:
/// [`Builder::without_ceilings`], [`Builder::without_protected_dirs`], [`Builder::follow_links`].
///
/// # Tier
/// A request accepts every isolation unless its [`isolation`](Request::isolation) restricts it.
///
/// - A program whose text needs threads, processes, sockets or a native module runs in a container if one is available;
///   so do a command line and a program with packages that WebAssembly does not support. Any other program runs in
///   WebAssembly, without a search for engines.
/// - A program that fails in WebAssembly because it lacks such a feature runs again in a container if it had no effects
///   outside of the sandbox. Output that it already wrote is not passed to the sinks again, and the second run reads
///   the same input again. The report of the second run sets
///   [`escalated_from`](codebox_core::Provenance::escalated_from). Each of the two runs has the full limits of the job.
/// - If the second run is not possible or not allowed, the report sets
///   [`needs_escalation`](RunReport::needs_escalation).
///
/// # Confinement
/// The process itself is not confined, because confinement of a process is permanent and this process is the caller's.
/// Reports of WebAssembly then list no sandbox layers. [`Builder::workers`] runs programs in processes of their own, which
/// are confined.
pub struct Runner {
    pub(crate) parts: Builder,
    pub(crate) candidates: OnceCell<Vec<Candidate>>,
    /// Prepared contents of the runtimes of languages.
    pub(crate) prepared: Mutex<BTreeMap<Language, PreparedRuntime>>,
}

/// Contents of a runtime that are known to be prepared.
#[derive(Default)]
pub(crate) struct PreparedRuntime {
    /// Names of the images.
    pub images: BTreeSet<String>,
    /// Properties of all images of the runtime, prepared or not.
    pub facts: Option<Arc<[ImageFacts]>>,
}

impl Runner {
    /// Returns a builder from the parts that every runner has: the analyzer, which parses programs in its own process,
    /// and the catalog of runtimes. Each part is created on first use.
    pub fn builder(
        analyzer: impl Fn() -> Result<Analyzer, RunnerError> + Send + Sync + 'static,
        catalog: impl Fn() -> Result<Arc<dyn Catalog>, RunnerError> + Send + Sync + 'static,
    ) -> Builder {
        Builder::new(analyzer, catalog)
    }

    /// Runs a job to completion and blocks the calling thread. Must not be called from async code.
    ///
    /// # Errors
    /// Returns an error if the request is not admitted, no backend can run it, or the outcome of the job is unknown. A
    /// failure of the job itself is part of the report.
    pub fn run<R>(&self, request: R) -> Result<RunReport, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        self.run_with(request, &mut ExecIo::none())
    }

    /// Runs a job with live input, output and cancellation, blocking the calling thread.
    ///
    /// A job that is cancelled before its program starts has the outcome [`Cancelled`](codebox_core::Outcome::Cancelled)
    /// as well.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_with<R>(&self, request: R, io: &mut ExecIo) -> Result<RunReport, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        thread_local! {
            static EXECUTOR: LocalCell<ThreadExecutor> = const { LocalCell::new() };
        }
        let request = request.try_into()?;
        let had_own_thread = std::mem::replace(&mut io.has_own_thread, true);
        let ended = EXECUTOR.with(|cell| {
            if cell.get().is_none() {
                let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let _ = cell.set(ThreadExecutor(Some(executor.map_err(|error| no_executor(&error))?)));
            }
            match cell.get().and_then(|executor| executor.0.as_ref()) {
                Some(executor) => executor.block_on(self.run_request(request, io)),
                None => Err(no_executor(&io::ErrorKind::Other.into())),
            }
        });
        io.has_own_thread = had_own_thread;
        ended
    }

    /// Runs a job to completion. Requires a tokio runtime with time enabled.
    ///
    /// Dropping the future stops the job. An installation or a package resolution that has begun is completed in the
    /// background, and later jobs use its result.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async<R>(&self, request: R) -> Result<RunReport, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let request = request.try_into()?;
        self.run_request(request, &mut ExecIo::none()).await
    }

    /// Runs a job with live input, output and cancellation. Requires a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async_with<R>(&self, request: R, io: &mut ExecIo) -> Result<RunReport, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let request = request.try_into()?;
        self.run_request(request, io).await
    }

    async fn run_request(&self, request: Request, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        match self.execute(request, io, &mut Library).await? {
            RunEnd::Report(report) => Ok(*report),
            RunEnd::TakenOver(status) => {
                let line = format!("another process ran the job and ended with status {status}");
                Err(RunnerError::new(ResultKind::InternalError, line))
            }
        }
    }

    /// Runs a job of a front end that takes part in the run, blocking the calling thread, which must be the main thread
    /// if the process confines itself.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_for(
        &self,
        request: Request,
        io: &mut ExecIo,
        front_end: &mut dyn FrontEnd,
    ) -> Result<RunEnd, RunnerError> {
        let had_own_thread = std::mem::replace(&mut io.has_own_thread, true);
        // This executor has no thread of its own, so it can be created before the process confines itself.
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|error| no_executor(&error))?;
        let ended = executor.block_on(self.execute(request, io, front_end));
        // A thread may still be blocked on standard input; it ends with the process.
        executor.shutdown_background();
        io.has_own_thread = had_own_thread;
        ended
    }

    /// Admits a request.
    pub(crate) async fn admit(&self, request: Request) -> Result<Admitted, RunnerError> {
        self.check_tools(&request)?;
        let text = match &request.program {
            Program::Inline(text) if request.language.is_none() => Some(text.clone()),
            _ => None,
        };
        // A file may be a pipe, which can be read only once.
        let Some(text) = text else { return self.admit_with(request, Parser::Analyzer) };
        // The parser is another process, and a hostile text may keep it busy. Admission of a text reads no program, so it
        // can be repeated.
        let is_needed = AtomicBool::new(false);
        let admitted = self.admit_with(request.clone(), Parser::Deferred(&is_needed));
        if !is_needed.load(Ordering::Relaxed) {
            return admitted;
        }
        let is_python = match self.parts.analyzer.get() {
            Ok(analyzer) => {
                let analyzer = analyzer.clone();
                self.parts.threads.start(move || is_python(&analyzer, &text))?.finish().await?
            }
            Err(_) => true,
        };
        self.admit_with(request, Parser::Done(is_python))
    }

    fn admit_with(&self, request: Request, parser: Parser<'_>) -> Result<Admitted, RunnerError> {
        Ok(admit(request, self.parts.policy.get()?, &Environment { runner: self, parser })?)
    }

    /// Returns all backends, the preferred one of each isolation first.
    pub(crate) fn backends(&self) -> Result<Vec<Arc<dyn Backend>>, RunnerError> {
        let mut all = Vec::new();
        for backends in &self.parts.backends {
            all.extend(backends.get()?.iter().cloned());
        }
        for backend in &all {
            backend.report_to(&self.parts.progress);
        }
        Ok(all)
    }

    /// Returns the backend with this name.
    pub(crate) fn backend(&self, id: &BackendId) -> Result<Arc<dyn Backend>, RunnerError> {
        let found = self.backends()?.into_iter().find(|backend| backend.id() == *id);
        found.ok_or_else(|| {
            RunnerError::new(
                ResultKind::InternalError,
                format!("the selected backend {id} is not registered with this runner"),
            )
        })
    }

    pub(crate) fn is_single_job(&self) -> bool {
        self.parts.threads == Threads::Dedicated
    }

    pub(crate) fn prepared(&self) -> MutexGuard<'_, BTreeMap<Language, PreparedRuntime>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Executor of a thread that runs jobs. The end of the thread does not wait for an installation that a cancelled job
/// has left behind.
struct ThreadExecutor(Option<tokio::runtime::Runtime>);

impl Drop for ThreadExecutor {
    fn drop(&mut self) {
        if let Some(executor) = self.0.take() {
            executor.shutdown_background();
        }
    }
}

/// Environment of admission: the given one, with a parser.
struct Environment<'r> {
    runner: &'r Runner,
    parser: Parser<'r>,
}

/// Parser of a text whose language is not given.
enum Parser<'r> {
    /// The analyzer, which is waited for.
    Analyzer,
    /// No parser; the flag is set if one is needed.
    Deferred(&'r AtomicBool),
    /// The result of parsing the text.
    Done(bool),
}

impl HostEnvironment for Environment<'_> {
    fn env_var(&self, name: &str) -> Option<OsString> {
        self.runner.parts.environment.env_var(name)
    }

    fn current_dir(&self) -> io::Result<PathBuf> {
        self.runner.parts.environment.current_dir()
    }

    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        self.runner.parts.environment.mount_points()
    }

    fn is_python(&self, text: &str) -> bool {
        match self.parser {
            Parser::Analyzer => self.runner.parts.analyzer.get().map_or(true, |analyzer| is_python(analyzer, text)),
            Parser::Deferred(is_needed) => {
                is_needed.store(true, Ordering::Relaxed);
                true
            }
            Parser::Done(is_python) => is_python,
        }
    }
}

/// Returns true if a text may be Python: also if it cannot be parsed within the analyzer's limits.
fn is_python(analyzer: &Analyzer, text: &str) -> bool {
    analyzer.is_python(text, Budget::default()).unwrap_or(true)
}

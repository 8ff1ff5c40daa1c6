//! Execution of jobs from a Rust program.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, ExecIo, InstanceSpec, Isolation, IsolationSet, Job, Language, NetGrant, Outcome,
    Provenance, RunReport,
};
use codebox_files::{FilesError, Scratch};
use codebox_service::catalog::{Catalog, CatalogError, Silent};
use codebox_service::image_choice::{ImageFacts, choose_image, default_image};
use codebox_service::{
    Candidate, Choice, Escalation, Looked, Needs, Next, PlanError, Wanted, is_analyzed, look_at, next,
};
use codebox_wasm::{WasmBackend, WasmError};

use crate::catalog::Shelf;
use crate::places::{Places, PlacesError};
use crate::settings::{self, SettingsError};

mod engines;
mod escalation;

use engines::{Engines, Opened};

/// The number of idle memory regions of each image that a runner keeps between jobs.
const IDLE_REGIONS: usize = 16;

/// A runner of jobs: in WebAssembly in this process if possible, otherwise in a container.
///
/// The first use installs the runtimes; later uses start from their memory images. The image of a job follows from the
/// imports of its program. Images that are built during the lifetime of a runner are used only by later runners. A
/// runner can be shared between threads and runs jobs concurrently. It keeps the address space of finished jobs and
/// resets it, so that the next job starts without page faults.
///
/// # Which tier
/// A job accepts every isolation unless its [`isolations`](Job::isolations) restrict it. The rules are those of
/// `codebox run`:
///
/// - A program whose text needs threads, processes, sockets or a native module runs in a container of Podman or Docker
///   if one is available; so does a command line. Any other program runs in WebAssembly, without a search for engines.
/// - A program that fails in WebAssembly because it lacks such a capability runs again in a container if it had no
///   effects outside of the sandbox. Output that it already wrote is not passed to the sinks again, and the second run
///   reads the same input again. The report of the second run sets [`escalated_from`](Provenance::escalated_from). Each
///   of the two runs has the full limits of the job.
/// - If the second run is not possible or not allowed, the report sets
///   [`needs_escalation`](RunReport::needs_escalation).
/// - A job that accepts [`IsolationSet::only`]`(Isolation::Wasm)` never leaves this process.
///
/// The runner applies `isolation`, `escalation`, `engine`, `warm`, `[network]` and `[images]` of the user's
/// `config.toml`. Containers that are kept ready belong to this runner and are removed with it. The runner pulls an
/// image that the engine lacks. The limits are those of the job alone.
///
/// A job with [`packages`](Job::packages) is refused with [`RunnerError::Packages`], because their installation starts
/// processes of the command line. Grant a directory that contains the packages instead.
///
/// The process itself is not confined, because confinement of a process is permanent and this process is the caller's.
/// Reports of WebAssembly therefore list no walls. `codebox run` confines itself.
///
/// # Examples
/// ```
/// # let home = codebox_testkit::shared_home(env!("CARGO_MANIFEST_DIR"));
/// # let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # executor.block_on(async {
/// use codebox::{ByteSize, Job, Limit, Limits, Runner};
///
/// let runner = tokio::task::spawn_blocking(move || Runner::below(&home)).await.expect("no panic")?;
/// let mut job = Job::python("import numpy as np; print(np.arange(10).sum())");
/// job.limits = Limits { memory: Limit::At(ByteSize::mib(256)), ..Limits::default() };
/// let report = runner.run_async(&job).await?;
/// assert!(report.is_success());
/// # Ok::<(), codebox::RunnerError>(())
/// # }).unwrap();
/// ```
///
/// A program that needs an operating system, on a machine with a container engine:
/// ```no_run
/// use codebox::{Job, Isolation, Runner};
///
/// let runner = Runner::new()?;
/// let report = runner.run(Job::python("import subprocess; print(subprocess.run(['id', '-u']).returncode)"))?;
/// assert_eq!(report.provenance.isolation, Isolation::Container);
/// # Ok::<(), codebox::RunnerError>(())
/// ```
pub struct Runner {
    wasm: Arc<WasmBackend>,
    /// The WebAssembly backend and its constant capabilities, as input of the tier choice.
    candidate: Candidate,
    /// The images of each language at the time the runner was created.
    images: Vec<(Language, Vec<ImageFacts>)>,
    isolations: IsolationSet,
    escalation: Escalation,
    /// The hosts that the configuration allows, if it restricts them.
    allowed_hosts: Option<Vec<NetGrant>>,
    engines: Engines,
    analyzer: Analyzer,
}

/// Error of creating a runner, or of a run whose outcome is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// The directories of codebox's files are unknown.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The WebAssembly engine could not be created.
    #[error(transparent)]
    Engine(#[from] WasmError),
    /// Host files could not be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The user's configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The runtime could not be installed.
    #[error(transparent)]
    Install(#[from] CatalogError),
    /// The job and the configuration have no isolation in common.
    #[error(
        "cannot use isolation {asked}: the configuration allows only {allowed}; change the job or the configuration"
    )]
    Isolation {
        /// The isolations that the job accepts.
        asked: IsolationSet,
        /// The isolations that the configuration allows.
        allowed: IsolationSet,
    },
    /// The job requests a network grant that the configuration does not allow.
    #[error("cannot grant {0}: the configuration does not allow it; add it to network.allow, or leave the grant out")]
    Host(NetGrant),
    /// The job requests packages, which only the command line can install.
    #[error(
        "cannot have the package {0} in a job of the library: use codebox run --with, or grant a directory with it"
    )]
    Packages(String),
    /// No backend can run the job, or its program declares requirements that are invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The job could not be run.
    #[error(transparent)]
    Run(#[from] BackendError),
    /// The executor of a blocking run could not be started.
    #[error("cannot start an executor")]
    Executor(#[from] std::io::Error),
}

impl Runner {
    /// Creates a runner in the user's own directories. Blocks while the runtimes are installed for the first time.
    ///
    /// # Errors
    /// [`RunnerError`] with the resource that is not available.
    pub fn new() -> Result<Self, RunnerError> {
        Self::at(&Places::from_env()?)
    }

    /// Creates a runner that keeps all its files below one directory.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn below(home: &Path) -> Result<Self, RunnerError> {
        Self::at(&Places::below(home))
    }

    fn at(places: &Places) -> Result<Self, RunnerError> {
        let shelf = Shelf::below(places)?;
        let stores = shelf.stores().to_vec();
        let mut images = Vec::new();
        for (language, store) in &stores {
            shelf.ensure(&store.spec().name, &Silent)?;
            let facts = shelf.images(Some(language))?.iter().map(|image| image.facts()).collect();
            images.push((language.clone(), facts));
        }
        let settings = settings::read_user(&places.config_file())?;
        let scratch = Arc::new(Scratch::new(&places.scratch())?);
        let analyzer = Analyzer::below(&places.programs());
        let wasm = WasmBackend::new(stores, Arc::clone(&scratch), IDLE_REGIONS).reaching(crate::network::direct());
        let wasm = Arc::new(wasm.analyzing(analyzer.clone()));
        let candidate = Candidate { found: Some(Ok(wasm.capabilities())), ..Candidate::of(&*wasm) };
        let isolations = settings.isolations.unwrap_or_default();
        let escalation = settings.escalation.unwrap_or_default();
        let allowed_hosts = settings.allowed_hosts.clone();
        let engines = Engines::new(places.clone(), settings, scratch, analyzer.clone());
        Ok(Self { wasm, candidate, images, isolations, escalation, allowed_hosts, engines, analyzer })
    }

    /// Runs a job to completion and blocks the calling thread. Must not be called from async code.
    ///
    /// # Errors
    /// [`RunnerError::Run`] if the outcome of the job is unknown. A failure of the job itself is part of the report.
    pub fn run(&self, job: Job) -> Result<RunReport, RunnerError> {
        self.run_with(&job, &mut ExecIo::none())
    }

    /// Runs a job with live input, output and cancellation, blocking the calling thread.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_with(&self, job: &Job, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        thread_local! {
            static EXECUTOR: OnceCell<tokio::runtime::Runtime> = const { OnceCell::new() };
        }
        EXECUTOR.with(|cell| {
            if cell.get().is_none() {
                let _ = cell.set(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
            }
            match cell.get() {
                Some(executor) => executor.block_on(self.run_async_with(job, io)),
                None => Err(RunnerError::Executor(std::io::ErrorKind::Other.into())),
            }
        })
    }

    /// Runs a job to completion. Requires a tokio runtime with time enabled; the runner itself provides the executor of
    /// its containers.
    ///
    /// Dropping the future stops the job.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async(&self, job: &Job) -> Result<RunReport, RunnerError> {
        self.run_async_with(job, &mut ExecIo::none()).await
    }

    /// Runs a job with live input, output and cancellation. Requires a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async_with(&self, job: &Job, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let job = self.narrowed(job)?;
        let looked = self.looked_at(&job).await?;
        let wanted = Wanted::of_job(&job, &looked, self.escalation);
        // Engines are discovered only if the choice depends on them.
        if wanted.order().next() == Some(Isolation::Wasm)
            && let Next::Run(choice) = next(&wanted, std::slice::from_ref(&self.candidate))
        {
            return self.run_in_wasm(&job, io, (&looked, choice)).await;
        }
        let job = Arc::new(job.into_owned());
        let opened = tokio::select! {
            opened = self.engines.open(wanted, &job, &self.wasm) => opened?,
            () = io.cancel.cancelled() => return Ok(cancelled_before(&job)),
        };
        match opened {
            Opened::Wasm(choice) => self.run_in_wasm(&job, io, (&looked, choice)).await,
            Opened::Container(choice, instance) => {
                let io = ExecIo {
                    stdin: io.stdin.take(),
                    stdout: io.stdout.take(),
                    stderr: io.stderr.take(),
                    cancel: io.cancel.clone(),
                };
                self.engines.exec((choice, instance), job, io).await
            }
        }
    }

    /// Runs a job in WebAssembly, and again in a container if it lacks a capability there and escalation is allowed.
    async fn run_in_wasm(
        &self,
        job: &Job,
        io: &mut ExecIo,
        (looked, choice): (&Looked, Choice),
    ) -> Result<RunReport, RunnerError> {
        let kept = self.kept(job, io);
        let spec = InstanceSpec {
            language: job.language.clone(),
            grants: job.grants.clone(),
            limits: job.limits,
            image: Some(self.image_for(job, &looked.needs)),
            isolation: Isolation::Wasm,
            warm: None,
            layers: Vec::new(),
        };
        let mut instance = self.wasm.open(&spec).await?;
        let mut report = instance.exec(job, io).await?;
        instance.close().await?;
        report.provenance.reason = choice.reason;
        self.followed_up(report, job, looked, (kept, &io.cancel)).await
    }

    /// Analyzes the needs of a job's program. The analysis of a hostile text may take long, so it runs outside of the
    /// executor's threads.
    async fn looked_at(&self, job: &Job) -> Result<Looked, RunnerError> {
        if !is_analyzed(job) {
            return Ok(look_at(job, &self.analyzer).map_err(PlanError::from)?);
        }
        let (job, analyzer) = (job.clone(), self.analyzer.clone());
        let looked = tokio::task::spawn_blocking(move || look_at(&job, &analyzer)).await;
        let looked = looked.map_err(|error| RunnerError::Executor(std::io::Error::other(error)))?;
        Ok(looked.map_err(PlanError::from)?)
    }

    /// Returns the job with its isolations reduced to those that the configuration allows. Rejects jobs with packages,
    /// and network grants that the configuration does not allow.
    fn narrowed<'j>(&self, job: &'j Job) -> Result<Cow<'j, Job>, RunnerError> {
        if let Some(package) = job.packages.first() {
            return Err(RunnerError::Packages(package.clone()));
        }
        let is_allowed = |grant: &&NetGrant| {
            self.allowed_hosts.as_ref().is_none_or(|allowed| allowed.iter().any(|one| grant.is_within(one)))
        };
        if let Some(beyond) = job.grants.net.iter().find(|grant| !is_allowed(grant)) {
            return Err(RunnerError::Host(beyond.clone()));
        }
        let refused = || RunnerError::Isolation { asked: job.isolations, allowed: self.isolations };
        let both = job.isolations.iter().filter(|isolation| self.isolations.contains(*isolation));
        let both = IsolationSet::of(both).ok_or_else(refused)?;
        if both == job.isolations {
            return Ok(Cow::Borrowed(job));
        }
        Ok(Cow::Owned(Job { isolations: both, ..job.clone() }))
    }

    /// Returns the WebAssembly backend, for tests and benchmarks.
    #[doc(hidden)]
    pub fn backend(&self) -> &WasmBackend {
        &self.wasm
    }

    fn image_for(&self, job: &Job, needs: &Needs) -> String {
        let images = self.images.iter().find(|(language, _)| language == job.language.run_as());
        match images {
            Some((language, images)) if !needs.imports.is_empty() => choose_image(language, needs, images).name,
            _ => default_image(&job.language).to_owned(),
        }
    }
}

/// Returns the report of a job that was cancelled while its container was being created.
fn cancelled_before(job: &Job) -> RunReport {
    let mut provenance = Provenance::new(BackendId::new("container"), Isolation::Container);
    provenance.reason = "it was cancelled before its container was ready".to_owned();
    RunReport::new(Outcome::Cancelled, provenance, job.limits)
}

//! Running jobs from a Rust program.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use codebox_core::{Backend, BackendError, ExecIo, InstanceSpec, Isolation, Job, Language, RunReport};
use codebox_files::{FilesError, Scratch};
use codebox_service::Needs;
use codebox_service::catalog::{Catalog, CatalogError, Silent};
use codebox_service::image_choice::{ImageFacts, choose_image, default_image};
use codebox_wasm::{WasmBackend, WasmError};

use crate::catalog::Shelf;
use crate::places::{Places, PlacesError};

/// Memory regions of each image that a runner keeps between jobs.
const IDLE_REGIONS: usize = 16;

/// Runs jobs in this process: the first use installs the runtime, later ones start from its memory images.
///
/// The image that a job starts from follows from what its program imports; images built while a runner lives are seen
/// by the next one. A runner can be shared between threads; jobs run side by side. It keeps the address space of ended jobs, put back
/// to what it was, so that the next job starts without a page fault.
///
/// The process itself is not confined: that binds a process for good, and this one is yours. Reports say so by
/// listing no walls. `codebox run` confines itself.
///
/// # Examples
/// ```
/// # let home = codebox_testkit::shared_home(env!("CARGO_MANIFEST_DIR"));
/// # let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
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
pub struct Runner {
    wasm: WasmBackend,
    /// The images of each language that were there when the runner was made.
    images: Vec<(Language, Vec<ImageFacts>)>,
}

/// Why a runner could not be made, or could not say what a job did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerError {
    /// There is nowhere to keep codebox's files.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The engine could not be set up.
    #[error(transparent)]
    Engine(#[from] WasmError),
    /// Host files could not be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The runtime could not be installed.
    #[error(transparent)]
    Install(#[from] CatalogError),
    /// The job could not be run.
    #[error(transparent)]
    Run(#[from] BackendError),
    /// The executor of a blocking run could not be started.
    #[error("cannot start an executor")]
    Executor(#[from] std::io::Error),
}

impl Runner {
    /// A runner over the user's own places; blocks while the runtime is installed for the first time.
    ///
    /// # Errors
    /// [`RunnerError`], each with what could not be had.
    pub fn new() -> Result<Self, RunnerError> {
        Self::at(&Places::from_env()?)
    }

    /// A runner that keeps everything below one directory.
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
        let wasm = WasmBackend::new(stores, Arc::new(Scratch::new(&places.scratch())?), IDLE_REGIONS);
        Ok(Self { wasm, images })
    }

    /// Runs a job to its end, blocking the calling thread; must not be called from async code.
    ///
    /// # Errors
    /// [`RunnerError::Run`] when it cannot be said what the job did; what it did is in the report.
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
                let _ = cell.set(tokio::runtime::Builder::new_current_thread().enable_time().build()?);
            }
            match cell.get() {
                Some(executor) => executor.block_on(self.run_async_with(job, io)),
                None => Err(RunnerError::Executor(std::io::ErrorKind::Other.into())),
            }
        })
    }

    /// Runs a job to its end; needs a tokio runtime with time enabled.
    ///
    /// Dropping the future stops the job.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async(&self, job: &Job) -> Result<RunReport, RunnerError> {
        self.run_async_with(job, &mut ExecIo::none()).await
    }

    /// Runs a job with live input, output and cancellation; needs a tokio runtime with time enabled.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub async fn run_async_with(&self, job: &Job, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let spec = InstanceSpec {
            language: job.language.clone(),
            grants: job.grants.clone(),
            limits: job.limits,
            image: Some(self.image_for(job)),
            isolation: Isolation::Wasm,
            warm: None,
        };
        let mut instance = self.wasm.open(&spec).await?;
        let report = instance.exec(job, io).await?;
        instance.close().await?;
        Ok(report)
    }

    /// The backend, for tests and benchmarks of it.
    #[doc(hidden)]
    pub fn backend(&self) -> &WasmBackend {
        &self.wasm
    }

    fn image_for(&self, job: &Job) -> String {
        let needs = Needs::of_job(job);
        let images = self.images.iter().find(|(language, _)| language == job.language.run_as());
        match images {
            Some((language, images)) if !needs.imports.is_empty() => choose_image(language, &needs, images).name,
            _ => default_image(&job.language).to_owned(),
        }
    }
}

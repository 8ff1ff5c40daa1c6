//! The container engines of a runner, created when a job first needs one.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_analysis::Analyzer;
use codebox_container::ContainerBackend;
use codebox_core::{Backend, ExecIo, Instance, InstanceSpec, Isolation, Job, RunReport, Unavailable};
use codebox_files::Scratch;
use codebox_service::catalog::Silent;
use codebox_service::config::Settings;
use codebox_service::{Choice, PlanError, Wanted, backend_fix, choose};
use codebox_wasm::WasmBackend;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::RunnerError;
use crate::containers::ensure_image;
use crate::places::Places;

/// The time that dropping the engines waits for the removal of their containers.
const PATIENCE: Duration = Duration::from_secs(10);

/// The container engines of this machine, discovered on first use.
///
/// The clients of the engines run on an executor of their own, because connections are kept between jobs and must not
/// depend on a caller's executor.
pub(super) struct Engines {
    places: Places,
    settings: Settings,
    scratch: Arc<Scratch>,
    analyzer: Analyzer,
    backends: OnceLock<Arc<[ContainerBackend]>>,
    executor: OnceLock<Runtime>,
    /// Held while the executor is created, so that only one is created: a superfluous one could not be dropped in async
    /// code.
    making: Mutex<()>,
}

/// The backend chosen for a job, ready to run it.
pub(super) enum Opened {
    /// WebAssembly in this process.
    Wasm(Choice),
    /// An open container.
    Container(Choice, Box<dyn Instance>),
}

/// A task that is aborted when the handle is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engines {
    pub(super) fn new(places: Places, settings: Settings, scratch: Arc<Scratch>, analyzer: Analyzer) -> Self {
        let (backends, executor) = (OnceLock::new(), OnceLock::new());
        Self { places, settings, scratch, analyzer, backends, executor, making: Mutex::new(()) }
    }

    fn backends(&self) -> &Arc<[ContainerBackend]> {
        self.backends.get_or_init(|| {
            let named = |backend: &ContainerBackend| {
                self.settings.engine.as_deref().is_none_or(|engine| backend.id().as_str() == engine)
            };
            let backends =
                crate::containers::backends(&self.places, &self.settings, &self.scratch, None, &self.analyzer);
            backends.into_iter().filter(named).collect()
        })
    }

    /// Returns true if an engine may be available, without connecting to any.
    pub(super) fn may_be_there(&self) -> bool {
        self.backends().iter().any(ContainerBackend::may_be_there)
    }

    /// Chooses the backend of a job, and pulls the image and opens a container if the choice is a container.
    pub(super) async fn open(
        &self,
        wanted: Wanted,
        job: &Arc<Job>,
        wasm: &Arc<WasmBackend>,
    ) -> Result<Opened, RunnerError> {
        let (engines, wasm, job) = (Arc::clone(self.backends()), Arc::clone(wasm), Arc::clone(job));
        let warm = self.settings.warm;
        self.beside(async move { opened(&wanted, (&job, warm), &wasm, &engines).await }).await?
    }

    /// Runs a job in its container and removes the container.
    pub(super) async fn exec(
        &self,
        (choice, mut instance): (Choice, Box<dyn Instance>),
        job: Arc<Job>,
        mut io: ExecIo,
    ) -> Result<RunReport, RunnerError> {
        self.beside(async move {
            let result = instance.exec(&job, &mut io).await;
            // A failed removal does not change the report of the run. The leftovers are removed by a later sweep.
            let _ = instance.close().await;
            let mut report = result?;
            report.provenance.reason = choice.reason;
            Ok(report)
        })
        .await?
    }

    /// Removes a container in which no job ran.
    pub(super) async fn give_up(&self, instance: Box<dyn Instance>) {
        // A container that cannot be removed now is removed by a later sweep.
        let _ = self.beside(instance.close()).await;
    }

    /// Runs a future on the engines' executor. Dropping the returned future aborts it.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, RunnerError> {
        let mut task = Task(self.executor()?.spawn(work));
        let done = (&mut task.0).await;
        done.map_err(|error| RunnerError::Executor(std::io::Error::other(error)))
    }

    fn executor(&self) -> Result<&Runtime, RunnerError> {
        if let Some(executor) = self.executor.get() {
            return Ok(executor);
        }
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executor) = self.executor.get() {
            return Ok(executor);
        }
        let mut executor = Builder::new_multi_thread();
        let executor = executor.worker_threads(1).thread_name("codebox-engines").enable_all().build()?;
        Ok(self.executor.get_or_init(|| executor))
    }
}

impl Drop for Engines {
    /// Shuts the executor down on a thread of its own, because the caller may be in async code, which must not block.
    fn drop(&mut self) {
        let (Some(executor), backends) = (self.executor.take(), self.backends.take()) else { return };
        let scratch = Arc::clone(&self.scratch);
        let executor = Arc::new(Mutex::new(Some(executor)));
        let taken = Arc::clone(&executor);
        let take = |executor: &Mutex<Option<Runtime>>| executor.lock().unwrap_or_else(PoisonError::into_inner).take();
        let end = move || {
            // Dropping the last client closes its connections. The remaining tasks remove containers.
            let Some(executor) = take(&taken) else { return };
            // Dropping the backends starts the removal of containers that were kept ready, on the executor that they
            // belong to.
            let inside = executor.enter();
            drop(backends);
            drop(inside);
            let until = Instant::now() + PATIENCE;
            while executor.metrics().num_alive_tasks() > 0 && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            executor.shutdown_background();
            drop(scratch);
        };
        if thread::Builder::new().name("codebox-engines".into()).spawn(end).is_err() {
            // The next start removes the leftovers.
            take(&executor).into_iter().for_each(Runtime::shutdown_background);
        }
    }
}

async fn opened(
    wanted: &Wanted,
    (job, warm): (&Job, Option<u32>),
    wasm: &WasmBackend,
    engines: &[ContainerBackend],
) -> Result<Opened, RunnerError> {
    let own = engines.iter().map(|engine| engine as &dyn Backend);
    let all: Vec<&dyn Backend> = std::iter::once(wasm as &dyn Backend).chain(own).collect();
    let mut refused = Vec::new();
    loop {
        let (_, choice) = choose(wanted, &all, &refused).await;
        let choice = choice.map_err(PlanError::from)?;
        let Some(engine) = engines.iter().find(|engine| engine.id() == choice.backend) else {
            return Ok(Opened::Wasm(choice));
        };
        match ensure_image(engine, &job.language, None, &Silent).await {
            Ok(()) => {
                let instance = engine.open(&spec(job, warm)).await?;
                return Ok(Opened::Container(choice, instance));
            }
            // A job that only prefers a container can run without one.
            Err(error) if wanted.can_do_without_container() => {
                let fix = backend_fix(&error).unwrap_or_default();
                refused.push((choice.backend, Unavailable { reason: error.to_string(), fix }));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn spec(job: &Job, warm: Option<u32>) -> InstanceSpec {
    InstanceSpec {
        language: job.language.clone(),
        grants: job.grants.clone(),
        limits: job.limits,
        image: None,
        isolation: Isolation::Container,
        warm,
        layers: Vec::new(),
    }
}

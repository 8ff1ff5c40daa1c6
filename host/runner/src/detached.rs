//! Backends whose clients run on an executor of their own, because they keep connections between jobs and must not
//! depend on the executor of a caller.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, BoxHost, Capabilities, ContainerHost, Diagnosis, EnforcementLevel,
    ExecIo, Finding, ImageName, ImageStore, Instance, InstanceSpec, Isolation, Job, Language, LeftoverCollector,
    Leftovers, LimitKind, LocalImage, Progress, RunReport, RunningContainer, Sweep, Unavailable, WarmPool,
    format_error_chain,
};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

mod boxes;
mod relay;

use relay::Relay;

/// Time after which a thread for blocking work ends if it has none.
const IDLE_THREAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time that dropping the last backend waits for the removal of its containers.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Backend that runs on an executor of its own. Dropping a future of it aborts the work.
pub struct Detached {
    index: usize,
    shared: Arc<Shared>,
}

/// State of all backends that share an executor.
struct Shared {
    backends: Vec<Arc<dyn Backend>>,
    executor: OnceLock<Runtime>,
    /// Held while the executor is created, so that only one is created: a superfluous one could not be dropped in async
    /// code.
    creation_lock: Mutex<()>,
    /// Value that is dropped after the work of the backends has ended.
    dropped_last: Option<Box<dyn Any + Send + Sync>>,
}

/// Task that is aborted when the handle is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Detached {
    /// Moves backends to one executor, which is created on first use. `dropped_last` is dropped when all their work has
    /// ended, after the last of them was dropped.
    pub fn all(backends: Vec<Arc<dyn Backend>>, dropped_last: impl Any + Send + Sync) -> Vec<Arc<dyn Backend>> {
        let count = backends.len();
        let (executor, creation_lock) = (OnceLock::new(), Mutex::new(()));
        let shared = Arc::new(Shared { backends, executor, creation_lock, dropped_last: Some(Box::new(dropped_last)) });
        let detached = |index| Arc::new(Self { index, shared: Arc::clone(&shared) }) as Arc<dyn Backend>;
        (0..count).map(detached).collect()
    }

    fn inner(&self) -> &Arc<dyn Backend> {
        &self.shared.backends[self.index]
    }

    /// Runs `work` with the backend on the executor.
    async fn run<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<dyn Backend>) -> F,
    ) -> Result<T, BackendError> {
        self.shared.run(work(Arc::clone(self.inner()))).await
    }
}

impl Shared {
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, BackendError> {
        let mut task = Task(self.executor()?.spawn(work.in_current_span()));
        match (&mut task.0).await {
            Ok(result) => Ok(result),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(BackendError::Interrupted { during: "shutting down the backends".to_owned() }),
        }
    }

    fn executor(&self) -> Result<&Runtime, BackendError> {
        if let Some(executor) = self.executor.get() {
            return Ok(executor);
        }
        let _guard = self.creation_lock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(executor) = self.executor.get() {
            return Ok(executor);
        }
        let mut executor = tokio::runtime::Builder::new_multi_thread();
        executor.worker_threads(1).thread_name("codebox-backends").thread_keep_alive(IDLE_THREAD_TIMEOUT);
        let executor = executor.enable_all().build();
        let executor = executor.map_err(|error| BackendError::io("start an executor", error))?;
        Ok(self.executor.get_or_init(|| executor))
    }
}

impl Drop for Shared {
    /// Shuts the executor down on a thread of its own, because the caller may be in async code, which must not block.
    fn drop(&mut self) {
        let Some(executor) = self.executor.take() else { return };
        let (backends, dropped_last) = (std::mem::take(&mut self.backends), self.dropped_last.take());
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
            let until = Instant::now() + SHUTDOWN_TIMEOUT;
            while executor.metrics().num_alive_tasks() > 0 && Instant::now() < until {
                thread::sleep(Duration::from_millis(10));
            }
            executor.shutdown_background();
            drop(dropped_last);
        };
        if thread::Builder::new().name("codebox-backends".into()).spawn(end).is_err() {
            // The next start removes the leftovers.
            take(&executor).into_iter().for_each(Runtime::shutdown_background);
        }
    }
}

impl Backend for Detached {
    fn id(&self) -> BackendId {
        self.inner().id()
    }

    fn isolation(&self) -> Isolation {
        self.inner().isolation()
    }

    fn report_to(&self, progress: &Arc<dyn Progress>) {
        self.inner().report_to(progress);
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async move {
            let probed = self.run(|inner| async move { inner.probe().await }).await;
            probed.unwrap_or_else(|error| {
                Err(Unavailable { reason: error.to_string(), fix: error.fix().unwrap_or_default() })
            })
        })
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async move {
            let spec = spec.clone();
            let inner = self.run(|inner| async move { Backend::open(&*inner, &spec).await }).await??;
            let shared = Arc::clone(&self.shared);
            Ok(Box::new(DetachedInstance { inner: Some(inner), shared }) as Box<dyn Instance>)
        })
    }

    fn export_checkpoint(&self, language: &Language, image: &str, from: &Path, to: &Path) -> Result<(), BackendError> {
        self.inner().export_checkpoint(language, image, from, to)
    }

    fn may_be_available(&self) -> bool {
        self.inner().may_be_available()
    }

    fn preload(&self, job: &Job) {
        self.inner().preload(job);
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        self.inner().image_store().map(|_| self as &dyn ImageStore)
    }

    fn boxes(&self) -> Option<&dyn BoxHost> {
        self.inner().boxes().map(|_| self as &dyn BoxHost)
    }

    fn containers(&self) -> Option<&dyn ContainerHost> {
        self.inner().containers().map(|_| self as &dyn ContainerHost)
    }

    fn leftovers(&self) -> Option<&dyn LeftoverCollector> {
        self.inner().leftovers().map(|_| self as &dyn LeftoverCollector)
    }

    fn warm_pool(&self) -> Option<&dyn WarmPool> {
        self.inner().warm_pool().map(|_| self as &dyn WarmPool)
    }

    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        Box::pin(async move {
            let diagnosis = self.run(|inner| async move { inner.diagnose().await }).await;
            diagnosis.unwrap_or_else(|error| Diagnosis {
                subject: self.id().to_string(),
                findings: vec![Finding {
                    detail: format_error_chain(&error),
                    fix: Some(error.fix().unwrap_or_else(|| "see the message".to_owned())),
                }],
            })
        })
    }
}

impl ImageStore for Detached {
    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, BackendError>> {
        Box::pin(async move { self.run(|inner| async move { store(&*inner)?.list().await }).await? })
    }

    fn image_name(&self, spec: &InstanceSpec) -> Result<ImageName, BackendError> {
        store(&**self.inner())?.image_name(spec)
    }

    fn image_id<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<String, BackendError>> {
        Box::pin(async move {
            let spec = spec.clone();
            self.run(|inner| async move { store(&*inner)?.image_id(&spec).await }).await?
        })
    }

    fn pull<'a>(&'a self, name: &'a ImageName, progress: &'a dyn Progress) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let name = name.clone();
            let (relay, reports) = Relay::new();
            let pulled = self.run(|inner| async move { store(&*inner)?.pull(&name, &relay).await });
            relay::forward(reports, progress, pulled).await?
        })
    }

    fn ensure<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let spec = spec.clone();
            let (relay, reports) = Relay::new();
            let ensured = self.run(|inner| async move { store(&*inner)?.ensure(&spec, &relay).await });
            relay::forward(reports, progress, ensured).await?
        })
    }
}

/// Returns the image store of a backend that has announced one.
fn store(backend: &dyn Backend) -> Result<&dyn ImageStore, BackendError> {
    backend.image_store().ok_or_else(|| BackendError::Interrupted { during: "accessing the image store".to_owned() })
}

impl ContainerHost for Detached {
    fn inspect<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<RunningContainer, BackendError>> {
        Box::pin(async move {
            let id = id.to_owned();
            let inspected = self.run(|inner| async move {
                match inner.containers() {
                    Some(containers) => containers.inspect(&id).await,
                    None => Err(BackendError::Interrupted { during: "inspecting a container".to_owned() }),
                }
            });
            inspected.await?
        })
    }

    fn limits(&self) -> BTreeMap<LimitKind, EnforcementLevel> {
        self.inner().containers().map(|containers| containers.limits()).unwrap_or_default()
    }
}

impl LeftoverCollector for Detached {
    fn sweep(&self, sweep: Sweep) -> BoxFuture<'_, Leftovers> {
        Box::pin(async move {
            let swept = self.run(move |inner| async move {
                match inner.leftovers() {
                    Some(collector) => collector.sweep(sweep).await,
                    None => Leftovers::default(),
                }
            });
            swept.await.unwrap_or_else(|error| Leftovers {
                found: Vec::new(),
                unreachable: vec![(self.id().to_string(), format_error_chain(&error))],
            })
        })
    }
}

impl WarmPool for Detached {
    fn serve<'a>(&'a self, request: &'a str) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move {
            let request = request.to_owned();
            let served = self.run(|inner| async move {
                match inner.warm_pool() {
                    Some(pool) => pool.serve(&request).await,
                    None => Ok(()),
                }
            });
            served.await?
        })
    }

    fn stop_all(&self) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(async move {
            let stopped = self.run(|inner| async move {
                match inner.warm_pool() {
                    Some(pool) => pool.stop_all().await,
                    None => Ok(()),
                }
            });
            stopped.await?
        })
    }
}

/// Instance on the executor of its backend. Dropping it drops the instance there, which removes it.
struct DetachedInstance {
    /// `None` after a job of which the outcome is unknown.
    inner: Option<Box<dyn Instance>>,
    shared: Arc<Shared>,
}

impl DetachedInstance {
    fn take(&mut self) -> Result<Box<dyn Instance>, BackendError> {
        let gone = || BackendError::Interrupted { during: "running the previous job".to_owned() };
        self.inner.take().ok_or_else(gone)
    }
}

impl Instance for DetachedInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let mut inner = self.take()?;
            let job = job.clone();
            let mut streams = ExecIo {
                stdin: io.stdin.take(),
                stdout: io.stdout.take(),
                stderr: io.stderr.take(),
                results: io.results.take(),
                input_modes: io.input_modes.clone(),
                resizes: io.resizes.take(),
                cancel: io.cancel.clone(),
                tools: io.tools.clone(),
                has_own_thread: false,
            };
            let work = async move {
                let result = inner.exec(&job, &mut streams).await;
                (inner, streams, result)
            };
            let (inner, streams, result) = self.shared.run(work).await?;
            self.inner = Some(inner);
            *io = ExecIo { has_own_thread: io.has_own_thread, ..streams };
            result
        })
    }

    fn checkpoint<'a>(&'a mut self, dir: &'a Path, shared: usize) -> BoxFuture<'a, Result<usize, BackendError>> {
        Box::pin(async move {
            let (mut inner, dir) = (self.take()?, dir.to_owned());
            let work = async move {
                let saved = inner.checkpoint(&dir, shared).await;
                (inner, saved)
            };
            let (inner, saved) = self.shared.run(work).await?;
            self.inner = Some(inner);
            saved
        })
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(async move {
            match self.inner.take() {
                Some(inner) => self.shared.run(inner.close()).await?,
                None => Ok(()),
            }
        })
    }
}

impl Drop for DetachedInstance {
    fn drop(&mut self) {
        if let (Some(inner), Some(executor)) = (self.inner.take(), self.shared.executor.get()) {
            let _inside = executor.enter();
            drop(inner);
        }
    }
}

//! Backend whose guests run in workers.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, BoxedError, Capabilities, Diagnosis, ExecIo, Instance, InstanceSpec,
    Isolation, Job, Language, RunReport, SandboxLayer, Unavailable,
};
use tokio::time::timeout;

use crate::connection::{Connection, Launch, ProcessEnd};
use crate::execution;
use crate::message::{Event, Request, VERSION};

/// Name of a worker in errors.
pub(crate) const WORKER: BackendId = BackendId::new("its worker process");

/// Maximum time in which a worker opens a guest, and in which it starts a program.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Backend whose guests run in processes of their own, one for each instance.
///
/// Futures of the backend must be polled in a tokio runtime with I/O and time enabled. An instance runs one job, or those of a
/// session.
pub struct WorkerBackend {
    inner: Arc<dyn Backend>,
    launch: Arc<dyn Launch>,
}

impl WorkerBackend {
    /// Creates a backend that opens guests in workers, whose backend is equal to `inner`. `inner` describes the backend and is not
    /// used to open guests.
    pub fn new(inner: Arc<dyn Backend>, launch: Arc<dyn Launch>) -> Self {
        Self { inner, launch }
    }
}

impl Backend for WorkerBackend {
    fn id(&self) -> BackendId {
        self.inner.id()
    }

    fn isolation(&self) -> Isolation {
        self.inner.isolation()
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        self.inner.probe()
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async move {
            let launch = Arc::clone(&self.launch);
            let launched = tokio::task::spawn_blocking(move || launch.launch()).await;
            let failed = |source: io::Error| BackendError::io("start a worker process", source);
            let launched = launched.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)?;
            let mut connection = Connection::new(launched).map_err(failed)?;
            let opened = connection.open(&Request::Open(Box::new(spec.clone())));
            opened.map_err(|source| BackendError::io("pass the job to its worker process", source))?;
            match timeout(START_TIMEOUT, connection.event()).await {
                Ok(Some(Ok(Event::Opened))) => {}
                Ok(Some(Ok(Event::Failed(failure)))) => return Err(failure.into()),
                Ok(None) => return Err(ended_early(&mut connection).await),
                Ok(other) => return Err(lost("open the guest", &mut connection, other).await),
                Err(_) => return Err(stalled("open the guest", &mut connection)),
            }
            let (id, spec) = (self.id(), spec.clone());
            Ok(Box::new(WorkerInstance { id, spec, connection, layers: None }) as Box<dyn Instance>)
        })
    }

    fn export_checkpoint(&self, language: &Language, image: &str, from: &Path, to: &Path) -> Result<(), BackendError> {
        self.inner.export_checkpoint(language, image, from, to)
    }

    fn may_be_available(&self) -> bool {
        self.inner.may_be_available()
    }

    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        self.inner.diagnose()
    }
}

/// Returns the error of a worker that has sent an unexpected event, or whose channel has ended.
pub(crate) async fn lost(action: &str, connection: &mut Connection, event: Option<io::Result<Event>>) -> BackendError {
    if event.is_some() {
        connection.kill();
    }
    let source = match event {
        Some(Ok(_)) => io::Error::new(io::ErrorKind::InvalidData, "unexpected message"),
        Some(Err(error)) => error,
        None => io::Error::new(io::ErrorKind::UnexpectedEof, connection.end().await.to_string()),
    };
    gone(action, source)
}

fn gone(action: &str, source: impl Into<BoxedError>) -> BackendError {
    BackendError::EngineLost { backend: WORKER, action: action.to_owned(), source: source.into() }
}

/// Returns the error of a worker that does not answer.
pub(crate) fn stalled(action: &str, connection: &mut Connection) -> BackendError {
    connection.kill();
    gone(action, format!("no answer within {} s", START_TIMEOUT.as_secs()))
}

/// Returns the error of a process that has ended before it opened a guest. A worker reports errors before it exits.
async fn ended_early(connection: &mut Connection) -> BackendError {
    match connection.end().await {
        end @ ProcessEnd::Exited(_) => {
            let detail = format!("{end}; is the program codebox {VERSION}?");
            BackendError::Input { subject: "the program of the workers".to_owned(), detail, source: None }
        }
        end => gone("open the guest", end.to_string()),
    }
}

struct WorkerInstance {
    id: BackendId,
    spec: InstanceSpec,
    connection: Connection,
    /// The layers that the worker has reported before any code of the guest ran.
    layers: Option<Vec<SandboxLayer>>,
}

impl Instance for WorkerInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        let Self { id, spec, connection, layers } = self;
        Box::pin(execution::run(connection, id, spec, layers, job, io))
    }

    fn checkpoint<'a>(&'a mut self, dir: &'a Path, shared: usize) -> BoxFuture<'a, Result<usize, BackendError>> {
        const ACTION: &str = "save the session";
        Box::pin(async move {
            let sent = self.connection.send(&Request::Checkpoint(dir.to_owned(), shared));
            sent.map_err(|source| BackendError::io("pass the directory to a worker process", source))?;
            match timeout(START_TIMEOUT, self.connection.event()).await {
                Ok(Some(Ok(Event::Saved(Ok(kept))))) => Ok(kept),
                Ok(Some(Ok(Event::Saved(Err(failure))))) => Err(failure.about_session()),
                Ok(other) => Err(lost(ACTION, &mut self.connection, other).await),
                Err(_) => Err(stalled(ACTION, &mut self.connection)),
            }
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        // A worker reports the end of its job when it has removed the directories of the job.
        drop(self);
        Box::pin(std::future::ready(Ok(())))
    }
}

//! The work of a worker: one guest, and one job or those of a session.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use codebox_core::{
    Backend, BackendError, BoxFuture, CancelToken, Effects, ExecIo, InputMode, InputModes, Instance, InstanceSpec, Job,
    OutputSink, ResultKind, ResultSink, RunTools, RunnerError, SandboxLayer, Shown, Stdin, ToolCalls, ToolDescription,
    ToolFailure, ToolResult,
};
use serde_bytes::ByteBuf;
use tokio::sync::oneshot;

use crate::frame::{self, Kind};
use crate::message::{Event, Exec, Failure, Hello, Request, VERSION};

/// The parts of a worker that the caller supplies.
pub trait Work {
    /// Returns the backend that opens a guest.
    ///
    /// # Errors
    /// Returns an error if there is no such backend.
    fn backend(&self, spec: &InstanceSpec) -> Result<Arc<dyn Backend>, RunnerError>;

    /// Confines this process to the grants of a guest and a job, and returns the states of the sandbox layers.
    ///
    /// # Errors
    /// Returns an error if a layer cannot be set up completely.
    fn confine(&self, spec: &InstanceSpec, job: &Job) -> Result<Vec<SandboxLayer>, RunnerError>;

    /// Removes the directories of this process, after the job.
    fn clean(&self);
}

/// Opens a guest and runs its jobs, as the process at the other end of the channel requests. The channel is a stream
/// socket, which is used like a pipe: a confined process may not be allowed the calls of sockets. Reads from it block the
/// thread.
///
/// # Errors
/// Returns an error if the channel fails. The process at its other end is then gone.
pub async fn serve(channel: OwnedFd, work: &dyn Work) -> io::Result<()> {
    let channel = File::from(channel);
    let mut worker = Worker { channel: Channel(Arc::new(Mutex::new(channel.try_clone()?))), requests: channel, work };
    let served = worker.serve().await;
    work.clean();
    // The job is over for the other process, which then ends this one.
    match served? {
        Some(event) => worker.channel.send(&event),
        None => Ok(()),
    }
}

/// The direction of the channel in which the worker writes. Output is written by a thread of its own.
#[derive(Clone)]
struct Channel(Arc<Mutex<File>>);

impl Channel {
    fn send(&self, event: &Event) -> io::Result<()> {
        let kind = match event {
            Event::Ended(_) | Event::Failed(_) => Kind::Last,
            Event::Opened
            | Event::Started(_)
            | Event::Output(..)
            | Event::Shown(_)
            | Event::InputMode(_)
            | Event::InputRequest
            | Event::ToolCall(..)
            | Event::Saved(_) => Kind::Ordinary,
        };
        frame::write(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), kind, event)
    }
}

struct Worker<'w> {
    channel: Channel,
    requests: File,
    work: &'w dyn Work,
}

impl Worker<'_> {
    /// Serves a job, and returns the last event. `None` if the other process is gone.
    async fn serve(&mut self) -> io::Result<Option<Event>> {
        let Some(Hello { version }) = frame::read(&mut self.requests)? else { return Ok(None) };
        if version != VERSION {
            let line = format!("the worker process is codebox {VERSION}, and the library is codebox {version}");
            let error = RunnerError::new(ResultKind::InvalidRequest, line).with_fix("install the same version of both");
            return Ok(Some(Event::Failed(error.into())));
        }
        let Some(Request::Open(spec)) = frame::read(&mut self.requests)? else { return Ok(None) };
        let mut instance = match self.open(&spec).await {
            Ok(instance) => instance,
            Err(failure) => return Ok(Some(Event::Failed(failure))),
        };
        self.channel.send(&Event::Opened)?;
        let event = match frame::read(&mut self.requests)? {
            Some(Request::Exec(first)) => self.exec_all(&mut *instance, &spec, *first).await?,
            _ => None,
        };
        // The outcome of the job is known; a failure to close the guest does not change the report.
        let _ = instance.close().await;
        Ok(event)
    }

    /// Confines the process, and runs the first job, and those that follow in a session. Returns the last event.
    async fn exec_all(
        &mut self,
        instance: &mut dyn Instance,
        spec: &InstanceSpec,
        first: Exec,
    ) -> io::Result<Option<Event>> {
        let layers = match self.work.confine(spec, &first.job) {
            Ok(layers) => layers,
            Err(error) => return Ok(Some(Event::Failed(error.into()))),
        };
        let requests = Requests::receive(self.requests.try_clone()?)?;
        let mut next = Some(first);
        while let Some(Exec { job, tools, shows_results, has_input_modes }) = next {
            let (input, cancel) = requests.start_job();
            let tools = tools.map(|list| RequestedTools::shared(list, self.channel.clone(), &requests));
            self.channel.send(&Event::Started(layers.clone()))?;
            let io = ExecIo {
                results: shows_results.then(|| Box::new(ShownResults(self.channel.clone())) as _),
                input_modes: has_input_modes.then(|| Arc::new(RequestedModes(self.channel.clone())) as _),
                cancel,
                tools,
                ..ExecIo::none()
            };
            let ended = self.exec(instance, job, input, io).await;
            requests.end_job();
            match ended {
                // The guest runs the next job.
                Event::Ended(report) if report.is_kept() => self.channel.send(&Event::Ended(report))?,
                last => return Ok(Some(last)),
            }
            next = self.next_job(instance, &requests).await?;
        }
        Ok(None)
    }

    /// Waits for the next job, and saves the state of the session meanwhile; `None` if the other process is gone.
    async fn next_job(&self, instance: &mut dyn Instance, requests: &Requests) -> io::Result<Option<Exec>> {
        loop {
            match requests.next() {
                Some(Next::Job(job)) => return Ok(Some(*job)),
                Some(Next::Checkpoint(dir, shared)) => {
                    let saved = instance.checkpoint(&dir, shared).await;
                    self.channel.send(&Event::Saved(saved.map_err(Failure::from)))?;
                }
                None => return Ok(None),
            }
        }
    }

    async fn open(&self, spec: &InstanceSpec) -> Result<Box<dyn Instance>, Failure> {
        let backend = self.work.backend(spec)?;
        Ok(backend.open(spec).await?)
    }

    /// Runs a job with this input, and the other parts of `io`. Returns its last event.
    async fn exec(&self, instance: &mut dyn Instance, job: Job, input: Input, io: ExecIo) -> Event {
        let input = RequestedInput { channel: self.channel.clone(), chunks: input, chunk: Vec::new(), at: 0 };
        let sink = |stream| {
            let sink = Box::new(EventSink { stream, channel: self.channel.clone() });
            Some(sink as Box<dyn OutputSink>)
        };
        let mut io = ExecIo {
            stdin: (job.stdin == Stdin::Streamed).then(|| Box::new(input) as _),
            stdout: sink(0),
            stderr: sink(1),
            has_own_thread: true,
            ..io
        };
        match instance.exec(&job, &mut io).await {
            Ok(report) => Event::Ended(Box::new(report)),
            Err(error) => Event::Failed(error.into()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        BackendError::io("use the channel of the worker process", error).into()
    }
}

/// Results that are sent to the other process.
struct ShownResults(Channel);

impl ResultSink for ShownResults {
    fn show(&mut self, shown: Shown) {
        // Without the other process, the job ends.
        let _ = self.0.send(&Event::Shown(Box::new(shown)));
    }
}

/// Modes of the input, which the other process changes.
struct RequestedModes(Channel);

impl InputModes for RequestedModes {
    fn set(&self, mode: InputMode) {
        // Without the other process, the job ends.
        let _ = self.0.send(&Event::InputMode(mode));
    }
}

/// Pieces of input of one job; `None` for input that cannot be read.
type Input = Receiver<Option<Vec<u8>>>;

/// Request that is served after the current job.
enum Next {
    Job(Box<Exec>),
    Checkpoint(PathBuf, usize),
}

/// Requests that a thread receives while jobs run.
struct Requests {
    next: Receiver<Next>,
    current: Arc<Mutex<Current>>,
}

/// Receivers of the requests for the current job.
#[derive(Default)]
struct Current {
    /// Cancellation of the job.
    cancel: CancelToken,
    /// `None` if no job runs.
    input: Option<Sender<Option<Vec<u8>>>>,
    /// Receiver of the result of the tool that the guest has called.
    tool: Option<oneshot::Sender<ToolResult>>,
    /// True when the other process is gone.
    is_closed: bool,
}

impl Requests {
    /// Starts a thread that receives jobs, input and cancellations. The end of the channel is a cancellation as well.
    fn receive(mut requests: File) -> io::Result<Self> {
        let (sender, next) = mpsc::channel();
        let current = Arc::new(Mutex::new(Current::default()));
        let shared = Arc::clone(&current);
        let receive = move || {
            while let Ok(Some(request)) = frame::read(&mut requests) {
                let mut current = lock(&shared);
                match request {
                    Request::Input(chunk) => {
                        if let Some(input) = &current.input {
                            // Input that the guest no longer reads is discarded.
                            let _ = input.send(chunk.map(ByteBuf::into_vec));
                        }
                    }
                    Request::ToolResult(result) => {
                        if let Some(tool) = current.tool.take() {
                            // A guest that was stopped does not wait for the result.
                            let _ = tool.send(result.map(ByteBuf::into_vec));
                        }
                    }
                    // A job that has ended meanwhile is not cancelled, and neither is the next one.
                    Request::Cancel if current.input.is_some() => current.cancel.cancel(),
                    Request::Cancel => {}
                    // Without a receiver, the worker ends.
                    Request::Exec(job) => drop(sender.send(Next::Job(job))),
                    Request::Checkpoint(dir, shared) => drop(sender.send(Next::Checkpoint(dir, shared))),
                    Request::Open(_) => break,
                }
            }
            let mut current = lock(&shared);
            current.is_closed = true;
            current.tool = None;
            current.cancel.cancel();
        };
        thread::Builder::new().name("codebox-requests".into()).stack_size(256 << 10).spawn(receive)?;
        Ok(Self { next, current })
    }

    /// Starts a job, and returns its input and the token that cancels it.
    fn start_job(&self) -> (Input, CancelToken) {
        let (sender, input) = mpsc::channel();
        let mut current = lock(&self.current);
        current.input = Some(sender);
        current.cancel = CancelToken::new();
        if current.is_closed {
            current.cancel.cancel();
        }
        (input, current.cancel.clone())
    }

    fn end_job(&self) {
        let mut current = lock(&self.current);
        (current.input, current.tool) = (None, None);
    }

    /// Waits for the next request; `None` if the other process is gone.
    fn next(&self) -> Option<Next> {
        self.next.recv().ok()
    }
}

fn lock(current: &Mutex<Current>) -> std::sync::MutexGuard<'_, Current> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Input that is requested from the other process when the guest reads.
struct RequestedInput {
    channel: Channel,
    chunks: Input,
    chunk: Vec<u8>,
    at: usize,
}

impl Read for RequestedInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.chunk.len() {
            self.channel.send(&Event::InputRequest)?;
            let failed = || io::Error::other("the input cannot be read");
            self.chunk = self.chunks.recv().map_err(|_| failed())?.ok_or_else(failed)?;
            self.at = 0;
        }
        let count = (&self.chunk[self.at..]).read(into)?;
        self.at += count;
        Ok(count)
    }
}

/// Tools that the other process has, and calls for the guest.
struct RequestedTools {
    list: Vec<ToolDescription>,
    channel: Channel,
    current: Arc<Mutex<Current>>,
}

impl RequestedTools {
    fn shared(list: Vec<ToolDescription>, channel: Channel, requests: &Requests) -> RunTools {
        Arc::new(Self { list, channel, current: Arc::clone(&requests.current) })
    }
}

impl ToolCalls for RequestedTools {
    fn list(&self) -> Vec<ToolDescription> {
        self.list.clone()
    }

    fn call(&self, name: &str, input: Vec<u8>, effects: Effects) -> BoxFuture<'static, ToolResult> {
        let lost = || ToolFailure::new(ToolFailure::FAILED, "the process that has the tools is gone");
        let (sender, result) = oneshot::channel();
        {
            let mut current = lock(&self.current);
            if !current.is_closed {
                current.tool = Some(sender);
            }
        }
        let sent = self.channel.send(&Event::ToolCall(name.to_owned(), ByteBuf::from(input), effects));
        Box::pin(async move {
            sent.map_err(|_| lost())?;
            result.await.unwrap_or_else(|_| Err(lost()))
        })
    }
}

/// Receiver of output that passes it to the other process.
struct EventSink {
    stream: u8,
    channel: Channel,
}

impl OutputSink for EventSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.channel.send(&Event::Output(self.stream, ByteBuf::from(bytes)))
    }
}

//! The work of a worker: one guest, one job.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use codebox_core::{
    Backend, BackendError, CancelToken, ExecIo, Instance, InstanceSpec, Job, OutputSink, ResultKind, RunnerError,
    SandboxLayer, Stdin,
};
use serde_bytes::ByteBuf;

use crate::frame::{self, Kind};
use crate::message::{Event, Failure, Hello, Request, VERSION};

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

/// Opens a guest and runs a job in it, as the process at the other end of the channel requests. The channel is a stream
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
            Event::Opened | Event::Started(_) | Event::Output(..) | Event::InputRequest => Kind::Ordinary,
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
            Some(Request::Exec(job)) => Some(self.exec(&mut *instance, &spec, *job).await?),
            _ => None,
        };
        // The outcome of the job is known; a failure to close the guest does not change the report.
        let _ = instance.close().await;
        Ok(event)
    }

    async fn open(&self, spec: &InstanceSpec) -> Result<Box<dyn Instance>, Failure> {
        let backend = self.work.backend(spec)?;
        Ok(backend.open(spec).await?)
    }

    /// Confines the process and runs the job. Returns the last event.
    async fn exec(&mut self, instance: &mut dyn Instance, spec: &InstanceSpec, job: Job) -> io::Result<Event> {
        let layers = match self.work.confine(spec, &job) {
            Ok(layers) => layers,
            Err(error) => return Ok(Event::Failed(error.into())),
        };
        self.channel.send(&Event::Started(layers))?;
        let cancel = CancelToken::new();
        let input = listen(self.requests.try_clone()?, cancel.clone())?;
        let input = RequestedInput { channel: self.channel.clone(), chunks: input, chunk: Vec::new(), at: 0 };
        let sink = |stream| {
            let sink = Box::new(EventSink { stream, channel: self.channel.clone() });
            Some(sink as Box<dyn OutputSink>)
        };
        let mut io = ExecIo {
            stdin: (job.stdin == Stdin::Streamed).then(|| Box::new(input) as _),
            stdout: sink(0),
            stderr: sink(1),
            cancel,
            has_own_thread: true,
        };
        Ok(match instance.exec(&job, &mut io).await {
            Ok(report) => Event::Ended(Box::new(report)),
            Err(error) => Event::Failed(error.into()),
        })
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        BackendError::io("use the channel of the worker process", error).into()
    }
}

/// Starts a thread that receives input and the cancellation. The end of the channel is a cancellation as well.
fn listen(mut requests: File, cancel: CancelToken) -> io::Result<Receiver<Option<Vec<u8>>>> {
    let (sender, chunks) = mpsc::channel();
    let listen = move || {
        while let Ok(Some(Request::Input(chunk))) = frame::read(&mut requests) {
            // Input that the guest no longer reads is discarded.
            let _ = sender.send(chunk.map(ByteBuf::into_vec));
        }
        cancel.cancel();
    };
    thread::Builder::new().name("codebox-requests".into()).stack_size(256 << 10).spawn(listen)?;
    Ok(chunks)
}

/// Input that is requested from the other process when the guest reads.
struct RequestedInput {
    channel: Channel,
    chunks: Receiver<Option<Vec<u8>>>,
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

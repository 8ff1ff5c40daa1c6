//! Connection to a worker, with a task for each direction.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::frame::{self, Kind, MaxSizes};
use crate::message::{Event, Hello, Request, VERSION};

/// Maximum size in bytes of a worker's message that is not its last one about a job. Pieces of output have at most 64 KiB.
const MAX_ORDINARY: u32 = 128 << 10;

/// Number of events that wait to be handled, after which the worker waits.
const QUEUED_EVENTS: usize = 16;

/// Maximum time for the end of a worker whose channel has ended.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Start of workers.
pub trait Launch: Send + Sync {
    /// Starts a worker, which serves one end of a socket by [`serve`](crate::serve), and returns the other end.
    ///
    /// May block.
    ///
    /// # Errors
    /// Returns an error if no worker can be started.
    fn launch(&self) -> io::Result<Launched>;
}

/// A worker that was started.
pub struct Launched {
    /// The socket to the worker.
    pub channel: StdUnixStream,
    /// The process. Dropping it ends the process.
    pub process: Box<dyn WorkerProcess>,
}

/// The process of a worker. Dropping it ends the process.
pub trait WorkerProcess: Send {
    /// Waits for the end of the process, for at most this time.
    fn wait(&mut self, timeout: Duration) -> Option<ProcessEnd>;
}

/// End of the process of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// It exited with this status.
    Exited(i32),
    /// It was ended by this signal.
    Signalled(i32),
    /// Its host process ended, and the process with it.
    HostEnded,
    /// It still runs, and has closed its channel.
    Unknown,
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "it exited with status {status}"),
            Self::Signalled(signal) => write!(f, "it was ended by signal {signal}"),
            Self::HostEnded => f.write_str("its host process ended"),
            Self::Unknown => f.write_str("it closed its channel"),
        }
    }
}

/// Connection to a worker. Dropping it ends the worker.
pub(crate) struct Connection {
    requests: mpsc::UnboundedSender<Vec<u8>>,
    /// Number of requests that are not written yet.
    unwritten: watch::Sender<usize>,
    events: mpsc::Receiver<io::Result<Event>>,
    max_last: Arc<AtomicU32>,
    max_ordinary: Arc<AtomicU32>,
    tasks: [JoinHandle<()>; 2],
    process: Option<Box<dyn WorkerProcess>>,
}

impl Connection {
    /// Connects to a worker. Must be called in a tokio runtime with I/O enabled.
    pub(crate) fn new(launched: Launched) -> io::Result<Self> {
        let Launched { channel, process } = launched;
        channel.set_nonblocking(true)?;
        let (mut reader, mut writer) = UnixStream::from_std(channel)?.into_split();
        let (requests, mut queue) = mpsc::unbounded_channel::<Vec<u8>>();
        let unwritten = watch::Sender::new(0);
        let written = unwritten.clone();
        let write = async move {
            while let Some(frames) = queue.recv().await {
                // The end of the worker is noticed by the other task.
                if writer.write_all(&frames).await.is_err() {
                    break;
                }
                written.send_modify(|count| *count -= 1);
            }
        };
        let (sender, events) = mpsc::channel(QUEUED_EVENTS);
        let max_last = Arc::new(AtomicU32::new(MAX_ORDINARY));
        let max = Arc::clone(&max_last);
        let max_ordinary = Arc::new(AtomicU32::new(MAX_ORDINARY));
        let ordinary = Arc::clone(&max_ordinary);
        let read = async move {
            loop {
                let sizes = MaxSizes { ordinary: ordinary.load(Ordering::Relaxed), last: max.load(Ordering::Relaxed) };
                let (event, is_over) = match frame::read_async(&mut reader, sizes).await {
                    Ok(None) => break,
                    Ok(Some((kind, event))) => {
                        if kind == Kind::Last {
                            // Each job has one.
                            max.store(MAX_ORDINARY, Ordering::Relaxed);
                        }
                        (Ok(event), false)
                    }
                    Err(error) => (Err(error), true),
                };
                if sender.send(event).await.is_err() || is_over {
                    break;
                }
            }
        };
        let tasks = [tokio::spawn(write), tokio::spawn(read)];
        Ok(Self { requests, unwritten, events, max_last, max_ordinary, tasks, process: Some(process) })
    }

    /// Sends the first messages.
    pub(crate) fn open(&self, request: &Request) -> io::Result<()> {
        let mut frames = Vec::new();
        frame::append(&mut frames, Kind::Ordinary, &Hello { version: VERSION.to_owned() })?;
        frame::append(&mut frames, Kind::Ordinary, request)?;
        self.queue(frames);
        Ok(())
    }

    /// Sends a message, without waiting until the worker has read it.
    pub(crate) fn send(&self, request: &Request) -> io::Result<()> {
        let mut frames = Vec::new();
        frame::append(&mut frames, Kind::Ordinary, request)?;
        self.queue(frames);
        Ok(())
    }

    fn queue(&self, frames: Vec<u8>) {
        self.unwritten.send_modify(|count| *count += 1);
        // A worker that has ended is noticed by its events.
        let _ = self.requests.send(frames);
    }

    /// Returns a future that waits until all messages so far are written.
    pub(crate) fn written(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut unwritten = self.unwritten.subscribe();
        async move {
            // The sender is gone with the connection.
            let _ = unwritten.wait_for(|count| *count == 0).await;
        }
    }

    /// Sets the maximum size of the last message about the next job.
    pub(crate) fn accept_last_event_up_to(&self, max: u32) {
        self.max_last.store(max, Ordering::Relaxed);
    }

    /// Sets the maximum size of the other messages about the next job, if it is larger than that of a piece of output.
    pub(crate) fn accept_ordinary_events_up_to(&self, max: u32) {
        self.max_ordinary.store(max.max(MAX_ORDINARY), Ordering::Relaxed);
    }

    /// Waits for a message; `None` if the channel has ended.
    pub(crate) async fn event(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }

    /// Ends the worker, without waiting until the system has released its memory.
    pub(crate) fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        match Handle::try_current() {
            Ok(executor) => drop(executor.spawn_blocking(move || drop(process))),
            Err(_) => drop(process),
        }
    }

    /// Ends the worker, whose channel has ended or should have, and returns the way in which it ended by itself.
    pub(crate) async fn end(&mut self) -> ProcessEnd {
        let Some(mut process) = self.process.take() else { return ProcessEnd::Unknown };
        let ended = tokio::task::spawn_blocking(move || process.wait(END_TIMEOUT));
        ended.await.ok().flatten().unwrap_or(ProcessEnd::Unknown)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.kill();
    }
}

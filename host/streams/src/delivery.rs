//! Delivery of a guest's output from a thread of its own: a stalled reader blocks the guest but does not delay its
//! deadline.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codebox_core::{ExecIo, OutputSink, ResultSink, Shown};
use tokio::sync::{mpsc, oneshot};

use crate::output::WriteError;

/// Maximum number of bytes in one queued piece.
const MAX_CHUNK_BYTES: usize = 64 << 10;
/// Maximum number of queued pieces.
const QUEUE_CAPACITY: usize = 16;

/// Time limit for a stalled reader to take the remaining output of a stopped job.
pub const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Receivers of what a guest produces.
#[derive(Default)]
pub struct Sinks {
    /// The two output streams, in the order of their descriptors.
    pub outputs: [Option<Box<dyn OutputSink>>; 2],
    /// Receiver of rich results.
    pub results: Option<Box<dyn ResultSink>>,
}

impl Sinks {
    /// Takes the receivers of a run.
    pub fn take(io: &mut ExecIo) -> Self {
        Self { outputs: [io.stdout.take(), io.stderr.take()], results: io.results.take() }
    }
}

/// Part of what a guest produces.
enum Piece {
    Output(usize, Vec<u8>),
    Shown(Shown),
}

/// Flags of the streams whose sinks have failed.
type Closed = Arc<[AtomicBool; 2]>;

/// Output on its way to its sinks; the streams and the results keep the order in which they were written.
pub struct Delivery {
    /// The sinks until the first byte is sent. The thread starts only then: most jobs have no sink or print nothing.
    sinks: Option<Sinks>,
    running: Option<Running>,
    has_sink: [bool; 2],
    shows_results: bool,
    closed: Closed,
}

struct Running {
    /// Sender to the thread; `None` once all output has been sent.
    queue: Option<mpsc::Sender<Piece>>,
    ended: oneshot::Receiver<()>,
}

impl Delivery {
    /// Creates a delivery to these sinks. A stream without a sink is discarded.
    pub fn new(sinks: Sinks) -> Self {
        let has_sink = [sinks.outputs[0].is_some(), sinks.outputs[1].is_some()];
        let shows_results = sinks.results.is_some();
        Self { sinks: Some(sinks), running: None, has_sink, shows_results, closed: Arc::default() }
    }

    /// Returns true if results have a receiver.
    #[must_use]
    pub const fn shows_results(&self) -> bool {
        self.shows_results
    }

    /// Sends what a guest shows after the output so far, and waits while the queue is full. Does nothing if results have no receiver.
    ///
    /// # Errors
    /// Returns an error if the thread that delivers cannot be started, or has ended.
    pub async fn show(&mut self, shown: Shown) -> Result<(), WriteError> {
        if !self.shows_results {
            return Ok(());
        }
        self.queue()?.send(Piece::Shown(shown)).await.map_err(|_| WriteError::Closed)
    }

    /// Returns the queue of the thread, which starts with the first piece.
    fn queue(&mut self) -> Result<&mpsc::Sender<Piece>, WriteError> {
        if let Some(sinks) = self.sinks.take() {
            self.running = Some(start(sinks, self.closed.clone()).map_err(|_| WriteError::Closed)?);
        }
        self.running.as_ref().and_then(|running| running.queue.as_ref()).ok_or(WriteError::Closed)
    }

    /// Sends bytes of stream 0 or 1, and waits while the queue is full. Does nothing if the stream has no sink.
    pub async fn send(&mut self, stream: usize, bytes: &[u8]) -> Result<(), WriteError> {
        if !self.has_sink[stream] || bytes.is_empty() {
            return Ok(());
        }
        let closed = Arc::clone(&self.closed);
        let queue = self.queue()?;
        for chunk in bytes.chunks(MAX_CHUNK_BYTES) {
            if closed[stream].load(Ordering::Relaxed) {
                return Err(WriteError::Closed);
            }
            queue.send(Piece::Output(stream, chunk.to_vec())).await.map_err(|_| WriteError::Closed)?;
        }
        Ok(())
    }

    /// Waits until the sinks have taken everything and are dropped.
    ///
    /// The wait can be cancelled and resumed.
    pub async fn finish(&mut self) {
        self.sinks = None;
        if let Some(running) = &mut self.running {
            running.queue = None;
            // The thread sends a message at its end. If a sink panics, the sender is dropped, which ends the wait as
            // well.
            let _ = (&mut running.ended).await;
            self.running = None;
        }
    }
}

fn start(mut sinks: Sinks, closed: Closed) -> io::Result<Running> {
    let (queue, mut receiver) = mpsc::channel::<Piece>(QUEUE_CAPACITY);
    let (end, ended) = oneshot::channel();
    let deliver = move || {
        while let Some(piece) = receiver.blocking_recv() {
            match piece {
                Piece::Output(stream, chunk) => {
                    if let Some(sink) = &mut sinks.outputs[stream]
                        && sink.write(&chunk).is_err()
                    {
                        closed[stream].store(true, Ordering::Relaxed);
                        sinks.outputs[stream] = None;
                    }
                }
                Piece::Shown(shown) => {
                    if let Some(results) = &mut sinks.results {
                        results.show(shown);
                    }
                }
            }
        }
        drop(sinks);
        // The receiver may be gone already.
        let _ = end.send(());
    };
    std::thread::Builder::new().name("codebox-output".into()).stack_size(128 << 10).spawn(deliver)?;
    Ok(Running { queue: Some(queue), ended })
}

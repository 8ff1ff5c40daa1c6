//! Passes a guest's output on as it comes, from a thread of its own: a reader that stalls keeps the guest waiting, and
//! never its deadline.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use codebox_core::OutputSink;
use tokio::sync::{mpsc, oneshot};

use crate::output::WriteFailed;

/// Most bytes in one piece.
const PIECE: usize = 64 << 10;
/// Most pieces that wait for the reader.
const WAITING: usize = 16;

/// How long a stalled reader is waited for after a job was stopped.
pub const LAST_WORDS: Duration = Duration::from_millis(500);

/// The two output streams, in the order of their descriptors.
pub type Sinks = [Option<Box<dyn OutputSink>>; 2];

/// Which of the streams' receivers take no more.
type Closed = Arc<[AtomicBool; 2]>;

/// Output on its way to whoever watches; both streams in the order in which they were written.
pub struct Delivery {
    /// Until the first byte is on its way: most jobs have nobody watching, or nothing to say.
    sinks: Option<Sinks>,
    running: Option<Running>,
    watched: [bool; 2],
    closed: Closed,
}

struct Running {
    /// Nothing once all has been said.
    queue: Option<mpsc::Sender<(usize, Vec<u8>)>>,
    ended: oneshot::Receiver<()>,
}

impl Delivery {
    /// Output to these sinks, each of which may be nobody's.
    pub fn new(sinks: Sinks) -> Self {
        let watched = [sinks[0].is_some(), sinks[1].is_some()];
        Self { sinks: Some(sinks), running: None, watched, closed: Arc::default() }
    }

    /// Sends bytes of stream 0 or 1, waiting for room; does nothing when nobody watches it.
    pub async fn send(&mut self, stream: usize, bytes: &[u8]) -> Result<(), WriteFailed> {
        if !self.watched[stream] || bytes.is_empty() {
            return Ok(());
        }
        if let Some(sinks) = self.sinks.take() {
            self.running = Some(start(sinks, self.closed.clone()).map_err(|_| WriteFailed::Closed)?);
        }
        let queue = self.running.as_ref().and_then(|running| running.queue.as_ref()).ok_or(WriteFailed::Closed)?;
        for piece in bytes.chunks(PIECE) {
            if self.closed[stream].load(Ordering::Relaxed) {
                return Err(WriteFailed::Closed);
            }
            queue.send((stream, piece.to_vec())).await.map_err(|_| WriteFailed::Closed)?;
        }
        Ok(())
    }

    /// Waits until everything sent has been taken and the sinks are dropped.
    ///
    /// The wait can be given up and taken up again.
    pub async fn finish(&mut self) {
        self.sinks = None;
        if let Some(running) = &mut self.running {
            running.queue = None;
            // The thread ends with a word, or by a panic of a sink's, which ends the wait as well.
            let _ = (&mut running.ended).await;
            self.running = None;
        }
    }
}

fn start(mut sinks: Sinks, closed: Closed) -> io::Result<Running> {
    let (queue, mut pieces) = mpsc::channel::<(usize, Vec<u8>)>(WAITING);
    let (end, ended) = oneshot::channel();
    let deliver = move || {
        while let Some((stream, piece)) = pieces.blocking_recv() {
            if let Some(sink) = &mut sinks[stream]
                && sink.write(&piece).is_err()
            {
                closed[stream].store(true, Ordering::Relaxed);
                sinks[stream] = None;
            }
        }
        drop(sinks);
        // Nobody may be waiting any more.
        let _ = end.send(());
    };
    std::thread::Builder::new().name("codebox-output".into()).stack_size(128 << 10).spawn(deliver)?;
    Ok(Running { queue: Some(queue), ended })
}

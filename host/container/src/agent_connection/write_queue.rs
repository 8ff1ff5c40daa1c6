//! Outbound request queue to an agent. Adding a request never blocks.

use std::collections::VecDeque;
use std::pin::Pin;

use codebox_agent::Request;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout_at};

use crate::engine::CALL_TIMEOUT;
use crate::error::ContainerError;

/// Number of queued bytes from which senders with more data have to wait.
const HIGH_WATER_MARK: usize = 128 << 10;

/// Write queue to an agent.
pub(crate) struct WriteQueue {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// The frame that is being written, and the number of its bytes that have been written.
    current: Vec<u8>,
    written_len: usize,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// True if the last write has been flushed.
    flushed: bool,
    /// Time of the last progress, or of the first request in an empty queue.
    last_progress: Instant,
}

impl WriteQueue {
    pub(super) fn to(input: Pin<Box<dyn AsyncWrite + Send>>) -> Self {
        let (current, waiting) = (Vec::new(), VecDeque::new());
        Self { input, current, written_len: 0, waiting, bytes: 0, flushed: true, last_progress: Instant::now() }
    }

    pub(super) fn input(&mut self) -> &mut Pin<Box<dyn AsyncWrite + Send>> {
        &mut self.input
    }

    /// Returns true if all requests have been written and flushed.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes == 0 && self.flushed
    }

    /// Returns true if the queue has space for requests that can wait.
    pub(crate) fn has_capacity(&self) -> bool {
        self.bytes < HIGH_WATER_MARK
    }

    /// Adds a request to the end of the queue.
    pub(crate) fn enqueue(&mut self, request: &Request) {
        let frame = self.encode_frame(request);
        self.waiting.push_back(frame);
    }

    /// Adds a request to the front of the queue, behind the frame that is being written.
    pub(crate) fn enqueue_first(&mut self, request: &Request) {
        let frame = self.encode_frame(request);
        self.waiting.push_front(frame);
    }

    /// Restarts the timeout after an event of the agent. An agent that sends events is alive, and may have stopped
    /// reading because it was waiting for its events to be read.
    pub(crate) fn on_event(&mut self) {
        self.last_progress = Instant::now();
    }

    fn encode_frame(&mut self, request: &Request) -> Vec<u8> {
        if self.is_done() {
            self.last_progress = Instant::now();
        }
        let frame = request.encode();
        self.bytes += frame.len();
        frame
    }

    /// Writes a part of the queue. Completes when the connection has accepted some bytes, and never while the queue is
    /// empty. Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or has accepted no bytes for `CALL_TIMEOUT`: the agent no longer
    /// reads.
    pub(crate) async fn written(&mut self) -> Result<(), ContainerError> {
        if self.is_done() {
            return std::future::pending().await;
        }
        if self.written_len == self.current.len()
            && let Some(next) = self.waiting.pop_front()
        {
            (self.current, self.written_len) = (next, 0);
        }
        let lost = |source: codebox_core::BoxedError| ContainerError::Lost { doing: "send a request", source };
        let until = self.last_progress + CALL_TIMEOUT;
        let rest = &self.current[self.written_len..];
        let progress = if rest.is_empty() {
            timeout_at(until, self.input.flush()).await.map(|done| done.map(|()| 0))
        } else {
            timeout_at(until, self.input.write(rest)).await
        };
        match progress {
            Ok(Ok(0)) if !rest.is_empty() => Err(lost("connection closed".into())),
            Ok(Ok(count)) => {
                self.written_len += count;
                self.bytes -= count;
                self.flushed = count == 0;
                self.last_progress = Instant::now();
                Ok(())
            }
            Ok(Err(error)) => Err(lost(Box::new(error))),
            Err(late) => Err(lost(Box::new(late))),
        }
    }
}

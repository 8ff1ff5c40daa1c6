//! Outbound request queue to an agent. Adding a request never blocks.

use std::collections::VecDeque;
use std::pin::Pin;

use codebox_agent::Order;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout_at};

use crate::engine::PATIENCE;
use crate::error::ContainerError;

/// Number of queued bytes from which senders with more data have to wait.
const ROOM: usize = 128 << 10;

/// Write queue to an agent.
pub(crate) struct Tells {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// The frame that is being written, and the number of its bytes that have been written.
    current: Vec<u8>,
    gone: usize,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// True if the last write has been flushed.
    flushed: bool,
    /// Time of the last progress, or of the first request in an empty queue.
    since: Instant,
}

impl Tells {
    pub(super) fn to(input: Pin<Box<dyn AsyncWrite + Send>>) -> Self {
        let (current, waiting) = (Vec::new(), VecDeque::new());
        Self { input, current, gone: 0, waiting, bytes: 0, flushed: true, since: Instant::now() }
    }

    pub(super) fn input(&mut self) -> &mut Pin<Box<dyn AsyncWrite + Send>> {
        &mut self.input
    }

    /// Returns true if all requests have been written and flushed.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes == 0 && self.flushed
    }

    /// Returns true if there is room for requests that can wait.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < ROOM
    }

    /// Adds a request to the end of the queue.
    pub(crate) fn tell(&mut self, order: &Order) {
        let frame = self.counted(order);
        self.waiting.push_back(frame);
    }

    /// Adds a request to the front of the queue, behind the frame that is being written.
    pub(crate) fn tell_first(&mut self, order: &Order) {
        let frame = self.counted(order);
        self.waiting.push_front(frame);
    }

    /// Restarts the timeout after an event of the agent. An agent that sends events is alive, and may have stopped
    /// reading because it was waiting for its events to be read.
    pub(crate) fn heard(&mut self) {
        self.since = Instant::now();
    }

    fn counted(&mut self, order: &Order) -> Vec<u8> {
        if self.is_done() {
            self.since = Instant::now();
        }
        let frame = order.encode();
        self.bytes += frame.len();
        frame
    }

    /// Writes a part of the queue. Completes when the connection has accepted some bytes, and never while the queue is
    /// empty. Cancel safe.
    ///
    /// # Errors
    /// Returns an error if the connection is broken, or has accepted no bytes for `PATIENCE`: the agent no longer
    /// reads.
    pub(crate) async fn told(&mut self) -> Result<(), ContainerError> {
        if self.is_done() {
            return std::future::pending().await;
        }
        if self.gone == self.current.len()
            && let Some(next) = self.waiting.pop_front()
        {
            (self.current, self.gone) = (next, 0);
        }
        let lost = |source: codebox_core::BoxedError| ContainerError::Lost { doing: "send a request", source };
        let until = self.since + PATIENCE;
        let rest = &self.current[self.gone..];
        let took = if rest.is_empty() {
            timeout_at(until, self.input.flush()).await.map(|done| done.map(|()| 0))
        } else {
            timeout_at(until, self.input.write(rest)).await
        };
        match took {
            Ok(Ok(0)) if !rest.is_empty() => Err(lost("connection closed".into())),
            Ok(Ok(count)) => {
                self.gone += count;
                self.bytes -= count;
                self.flushed = count == 0;
                self.since = Instant::now();
                Ok(())
            }
            Ok(Err(error)) => Err(lost(Box::new(error))),
            Err(late) => Err(lost(Box::new(late))),
        }
    }
}

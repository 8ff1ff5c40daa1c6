//! What is told an agent: kept until the line takes it, so that nobody has to wait for that who has other things to do.

use std::collections::VecDeque;
use std::pin::Pin;

use codebox_agent::Order;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout_at};

use crate::engine::PATIENCE;
use crate::error::ContainerError;

/// Bytes that may wait before whoever has more is asked to wait as well.
const ROOM: usize = 128 << 10;

/// The way to an agent.
pub(crate) struct Tells {
    input: Pin<Box<dyn AsyncWrite + Send>>,
    /// What is on its way, and how much of it has gone.
    current: Vec<u8>,
    gone: usize,
    waiting: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the last of it was handed on.
    flushed: bool,
    /// When the line last took something, or was first asked to.
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

    /// Whether everything is on its way.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes == 0 && self.flushed
    }

    /// Whether more may be told that can wait.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < ROOM
    }

    /// Tells this after all else.
    pub(crate) fn tell(&mut self, order: &Order) {
        let frame = self.counted(order);
        self.waiting.push_back(frame);
    }

    /// Tells this before all else that is not on its way.
    pub(crate) fn tell_first(&mut self, order: &Order) {
        let frame = self.counted(order);
        self.waiting.push_front(frame);
    }

    /// Whoever is at the other end was heard: that it takes nothing has another reason than that it is gone, such as that
    /// it waited to be heard.
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

    /// Gets on with it: ready when the line took some, and never while there is nothing. The wait can be given up.
    ///
    /// # Errors
    /// When the line is broken, or has taken nothing for a while: who does not take it is not listening any more.
    pub(crate) async fn told(&mut self) -> Result<(), ContainerError> {
        if self.is_done() {
            return std::future::pending().await;
        }
        if self.gone == self.current.len()
            && let Some(next) = self.waiting.pop_front()
        {
            (self.current, self.gone) = (next, 0);
        }
        let lost = |source: codebox_core::BoxedError| ContainerError::Lost { doing: "carry an order", source };
        let until = self.since + PATIENCE;
        let rest = &self.current[self.gone..];
        let took = if rest.is_empty() {
            timeout_at(until, self.input.flush()).await.map(|done| done.map(|()| 0))
        } else {
            timeout_at(until, self.input.write(rest)).await
        };
        match took {
            Ok(Ok(0)) if !rest.is_empty() => Err(lost("it takes no more".into())),
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

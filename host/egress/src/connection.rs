use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codebox_core::{BoxFuture, LimitKind, RefusalReason};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::ledger::{Direction, Entry};
use crate::stream::Stream;

/// A connection to a granted host. Its bytes are counted, and it is cut when a network limit is reached.
pub struct Connection {
    stream: Stream,
    address: IpAddr,
    pub(crate) entry: Entry,
    /// The time limit for a TLS handshake over the connection.
    pub(crate) time_limit: Duration,
    /// Completes when any connection reaches a limit, which wakes the tasks that wait for this one.
    limit_reached: BoxFuture<'static, LimitKind>,
    /// If true, dropping the connection resets it, so that the host sees an abort instead of an orderly end.
    reset_on_drop: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.reset_on_drop.load(Ordering::Relaxed) {
            // A reset has no effect if the other side has already closed the connection.
            self.stream.reset_on_close();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn new(stream: Stream, address: IpAddr, entry: Entry, time_limit: Duration) -> Self {
        let limit_reached = Box::pin(entry.limit_reached());
        Self { stream, address, entry, time_limit, limit_reached, reset_on_drop: Arc::default() }
    }

    /// Returns the address of the other side.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the flag that makes a drop reset the connection. The flag is initially false.
    pub(crate) fn reset_on_drop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.reset_on_drop)
    }

    /// Polls for incoming data for at most `time_limit` without sleeping. This saves the cost of a wake-up for callers
    /// that have no other work.
    pub fn busy_poll(&self, time_limit: Duration) {
        self.stream.busy_poll(time_limit);
    }

    /// Completes once more bytes can be written or the connection has failed.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.stream.poll_writable(cx);
        Self::or_limit_reached(&mut self.limit_reached, polled, cx).map(drop)
    }

    /// Returns the polled result, or an error if the result is pending and a limit was reached.
    fn or_limit_reached<T>(
        limit_reached: &mut BoxFuture<'static, LimitKind>,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match (polled, cx) {
            (Poll::Pending, cx) => limit_reached.as_mut().poll(cx).map(|kind| Err(Self::limit_error(kind))),
            (ready, _) => ready,
        }
    }

    fn limit_error(kind: LimitKind) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionAborted, RefusalReason::Limit(kind).to_string())
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, entry, limit_reached, .. } = self.get_mut();
        let polled = entry.transfer(Direction::In, |left| {
            if left == 0 {
                return (0, None);
            }
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(left.min(buf.remaining())));
            let polled = stream.poll_read(cx, &mut part);
            let read = part.filled().len();
            (read, Some((polled, read)))
        });
        match polled.map_err(Self::limit_error)? {
            Some((polled, read)) => {
                ready!(Self::or_limit_reached(limit_reached, polled, cx))?;
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            None => {
                // An end of stream is accepted at the limit; any further byte exceeds it.
                let mut one = [0];
                if ready!(stream.poll_peek(cx, &mut one))? == 0 {
                    return Poll::Ready(Ok(()));
                }
                entry.end_transfers();
                Poll::Ready(Err(Self::limit_error(LimitKind::NetBytes)))
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, entry, limit_reached, .. } = self.get_mut();
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let polled = entry.transfer(Direction::Out, |left| {
            if left == 0 {
                return (0, None);
            }
            let polled = stream.poll_write(cx, &bytes[..bytes.len().min(left)]);
            let moved = if let Poll::Ready(Ok(moved)) = &polled { *moved } else { 0 };
            (moved, Some(polled))
        });
        match polled.map_err(Self::limit_error)? {
            Some(polled) => Self::or_limit_reached(limit_reached, polled, cx),
            None => {
                entry.end_transfers();
                Poll::Ready(Err(Self::limit_error(LimitKind::NetBytes)))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The connection has no write buffer.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_shutdown(cx)
    }
}

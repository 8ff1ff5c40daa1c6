use std::fmt;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codebox_core::{BoxFuture, LimitKind, NetVerdict, RefusalReason};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use crate::egress::late;
use crate::error::EgressError;
use crate::ledger::{Entry, Way};
use crate::roots::TlsRoots;
use crate::stream::Stream;
use crate::tls::{TlsConnection, TlsOffer};

/// A connection to a granted host: counted, and cut off where a limit on the network is reached.
pub struct Connection {
    stream: Stream,
    address: IpAddr,
    entry: Entry,
    patience: Duration,
    /// Wakes who waits for this connection when another one reaches a limit.
    over: BoxFuture<'static, LimitKind>,
    /// Whether the host is to hear that it was cut off, rather than that it ended, when this is dropped.
    resets: Arc<AtomicBool>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.resets.load(Ordering::Relaxed) {
            // One that is closed by the other side already has nobody to tell.
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
    pub(crate) fn new(stream: Stream, address: IpAddr, entry: Entry, patience: Duration) -> Self {
        let over = Box::pin(entry.until_over());
        Self { stream, address, entry, patience, over, resets: Arc::default() }
    }

    /// The address that it goes to.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Whether it is reset when it is dropped; it is not, until that is set.
    pub(crate) fn resets(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.resets)
    }

    /// Looks out for what comes in, for at most this long and without sleeping: for callers that have nothing else to do,
    /// and do not want to pay for being woken up.
    pub fn look_out(&self, patience: Duration) {
        self.stream.look_out(patience);
    }

    /// Ready once more can be written to it, or it has failed.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.stream.poll_writable(cx);
        Self::or_over(&mut self.over, polled, cx).map(drop)
    }

    /// Speaks TLS over it with a host of this name, as it is `offer`ed.
    ///
    /// # Errors
    /// When the name is none, or the handshake fails or takes too long.
    pub async fn start_tls(
        self,
        server_name: &str,
        roots: &TlsRoots,
        offer: &TlsOffer<'_>,
    ) -> Result<TlsConnection, EgressError> {
        let (entry, patience) = (self.entry.clone(), self.patience);
        let shaken = timeout(patience, TlsConnection::shake(self, server_name, roots, offer));
        shaken.await.unwrap_or_else(|_late| Err(late(patience))).map_err(|source| {
            entry.verdict(NetVerdict::Failed(format!("TLS: {source}")), None);
            EgressError::Tls { host: server_name.to_owned(), source }
        })
    }

    /// What was polled, or the error that it is over.
    fn or_over<T>(
        over: &mut BoxFuture<'static, LimitKind>,
        polled: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match (polled, cx) {
            (Poll::Pending, cx) => over.as_mut().poll(cx).map(|kind| Err(Self::cut(kind))),
            (ready, _) => ready,
        }
    }

    fn cut(kind: LimitKind) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionAborted, RefusalReason::Limit(kind).to_string())
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, entry, over, .. } = self.get_mut();
        let polled = entry.transfer(Way::In, |left| {
            if left == 0 {
                return (0, None);
            }
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(left.min(buf.remaining())));
            let polled = stream.poll_read(cx, &mut part);
            let read = part.filled().len();
            (read, Some((polled, read)))
        });
        match polled.map_err(Self::cut)? {
            Some((polled, read)) => {
                ready!(Self::or_over(over, polled, cx))?;
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            None => {
                // The end of the other's words takes no room; anything else is too much.
                let mut one = [0];
                if ready!(stream.poll_peek(cx, &mut one))? == 0 {
                    return Poll::Ready(Ok(()));
                }
                entry.overrun();
                Poll::Ready(Err(Self::cut(LimitKind::NetBytes)))
            }
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, entry, over, .. } = self.get_mut();
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let polled = entry.transfer(Way::Out, |left| {
            if left == 0 {
                return (0, None);
            }
            let polled = stream.poll_write(cx, &bytes[..bytes.len().min(left)]);
            let moved = if let Poll::Ready(Ok(moved)) = &polled { *moved } else { 0 };
            (moved, Some(polled))
        });
        match polled.map_err(Self::cut)? {
            Some(polled) => Self::or_over(over, polled, cx),
            None => {
                entry.overrun();
                Poll::Ready(Err(Self::cut(LimitKind::NetBytes)))
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Nothing is kept here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().stream.poll_shutdown(cx)
    }
}

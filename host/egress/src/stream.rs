//! A connected socket that is registered with the executor only when an operation would block.
//!
//! Most connections with a small request never block, and the registration costs more than the transfer of such a
//! request.

use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

/// The number of operations after which a connection is registered anyway, so that other tasks of the executor can run.
const MAX_DIRECT_OPERATIONS: u8 = 64;

pub(crate) enum Stream {
    /// An unregistered, non-blocking socket, with the remaining number of direct operations.
    Unregistered(net::TcpStream, u8),
    Registered(TcpStream),
    /// The registration failed.
    Lost,
}

impl Stream {
    pub(crate) fn of(stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Unregistered(stream, MAX_DIRECT_OPERATIONS))
    }

    /// Makes closing the socket discard unsent data and reset the connection.
    pub(crate) fn reset_on_close(&self) {
        // Failure means that the socket is not connected any more and has no unsent data.
        let _ = match self {
            #[cfg(unix)]
            Self::Unregistered(stream, _) => {
                rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).is_ok()
            }
            Self::Registered(stream) => stream.set_zero_linger().is_ok(),
            _ => false,
        };
    }

    /// Runs an operation directly. Returns `None` if it would block or the socket should be registered.
    fn try_directly<T>(
        &mut self,
        mut operation: impl FnMut(&net::TcpStream) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let Self::Unregistered(stream, left) = self else { return None };
        *left = left.checked_sub(1)?;
        loop {
            match operation(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Some(done),
            }
        }
    }

    fn registered(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        *self = match mem::replace(self, Self::Lost) {
            Self::Unregistered(stream, _) => Self::Registered(TcpStream::from_std(stream)?),
            other => other,
        };
        match self {
            Self::Registered(stream) => Ok(Pin::new(stream)),
            Self::Unregistered(..) | Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Polls for incoming data for at most `time_limit` without sleeping. An immediate answer is received earlier this
    /// way than through the executor. The thread yields the processor between polls.
    pub(crate) fn busy_poll(&self, time_limit: Duration) {
        let Self::Unregistered(stream, _) = self else { return };
        busy_retry(time_limit, || stream.peek(&mut [0])).ok();
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(read) = self.try_directly(|mut stream| stream.read(buf.initialize_unfilled())) {
            buf.advance(read?);
            return Poll::Ready(Ok(()));
        }
        self.registered()?.poll_read(cx, buf)
    }

    /// Copies available bytes into `bytes` without consuming them, and returns their number.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Some(seen) = self.try_directly(|stream| stream.peek(bytes)) {
            return Poll::Ready(seen);
        }
        self.registered()?.poll_peek(cx, &mut ReadBuf::new(bytes))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.try_directly(|mut stream| stream.write(bytes)) {
            return Poll::Ready(written);
        }
        self.registered()?.poll_write(cx, bytes)
    }

    /// Completes once more bytes can be written. A socket that never blocked counts as writable.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Unregistered(..) => Poll::Ready(Ok(())),
            Self::Registered(stream) => stream.poll_write_ready(cx),
            Self::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(shut) = self.try_directly(|stream| stream.shutdown(net::Shutdown::Write)) {
            return Poll::Ready(shut);
        }
        self.registered()?.poll_shutdown(cx)
    }
}

/// Retries an operation while it would block, for at most `time_limit` and without sleeping.
pub(crate) fn busy_retry<T>(time_limit: Duration, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < time_limit => {
                thread::yield_now();
            }
            done => return done,
        }
    }
}

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
const UNWATCHED: u8 = 64;

pub(crate) enum Stream {
    /// An unregistered, non-blocking socket, with the remaining number of direct operations.
    Fresh(net::TcpStream, u8),
    Watched(TcpStream),
    /// The registration failed.
    Lost,
}

impl Stream {
    pub(crate) fn of(stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Fresh(stream, UNWATCHED))
    }

    /// Makes closing the socket discard unsent data and reset the connection.
    pub(crate) fn reset_on_close(&self) {
        // Failure means that the socket is not connected any more and has no unsent data.
        let _ = match self {
            #[cfg(unix)]
            Self::Fresh(stream, _) => rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).is_ok(),
            Self::Watched(stream) => stream.set_zero_linger().is_ok(),
            _ => false,
        };
    }

    /// Runs an operation directly. Returns `None` if it would block or the socket should be registered.
    fn at_once<T>(&mut self, mut operation: impl FnMut(&net::TcpStream) -> io::Result<T>) -> Option<io::Result<T>> {
        let Self::Fresh(stream, left) = self else { return None };
        *left = left.checked_sub(1)?;
        loop {
            match operation(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Some(done),
            }
        }
    }

    fn watched(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        *self = match mem::replace(self, Self::Lost) {
            Self::Fresh(stream, _) => Self::Watched(TcpStream::from_std(stream)?),
            other => other,
        };
        match self {
            Self::Watched(stream) => Ok(Pin::new(stream)),
            Self::Fresh(..) | Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Polls for incoming data for at most `patience` without sleeping. An immediate answer is received earlier this
    /// way than through the executor. The thread yields the processor between polls.
    pub(crate) fn look_out(&self, patience: Duration) {
        let Self::Fresh(stream, _) = self else { return };
        soon(patience, || stream.peek(&mut [0])).ok();
    }

    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(read) = self.at_once(|mut stream| stream.read(buf.initialize_unfilled())) {
            buf.advance(read?);
            return Poll::Ready(Ok(()));
        }
        self.watched()?.poll_read(cx, buf)
    }

    /// Copies available bytes into `bytes` without consuming them, and returns their number.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Some(seen) = self.at_once(|stream| stream.peek(bytes)) {
            return Poll::Ready(seen);
        }
        self.watched()?.poll_peek(cx, &mut ReadBuf::new(bytes))
    }

    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(written) = self.at_once(|mut stream| stream.write(bytes)) {
            return Poll::Ready(written);
        }
        self.watched()?.poll_write(cx, bytes)
    }

    /// Completes once more bytes can be written. A socket that never blocked counts as writable.
    pub(crate) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Fresh(..) => Poll::Ready(Ok(())),
            Self::Watched(stream) => stream.poll_write_ready(cx),
            Self::Lost => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(shut) = self.at_once(|stream| stream.shutdown(net::Shutdown::Write)) {
            return Poll::Ready(shut);
        }
        self.watched()?.poll_shutdown(cx)
    }
}

/// Retries an operation while it would block, for at most `patience` and without sleeping.
pub(crate) fn soon<T>(patience: Duration, mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && began.elapsed() < patience => {
                thread::yield_now();
            }
            done => return done,
        }
    }
}

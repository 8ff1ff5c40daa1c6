//! A connected socket that the executor hears of once somebody has to wait for it, and not before.
//!
//! Most connections of a small request never come to that, and being watched costs more than the request's own bytes.

use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;

/// How often a connection is served before it is watched in any case: the executor is to come to its other work.
const UNWATCHED: u8 = 64;

pub(crate) enum Stream {
    /// Does not block; this often more.
    Fresh(net::TcpStream, u8),
    Watched(TcpStream),
    /// It could not be watched.
    Lost,
}

impl Stream {
    pub(crate) fn of(stream: net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Fresh(stream, UNWATCHED))
    }

    /// What is not sent when it is closed is dropped, and the other side hears that it was.
    pub(crate) fn reset_on_close(&self) {
        // A socket that is not connected any more has nothing to drop.
        let _ = match self {
            #[cfg(unix)]
            Self::Fresh(stream, _) => rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).is_ok(),
            Self::Watched(stream) => stream.set_zero_linger().is_ok(),
            _ => false,
        };
    }

    /// Does what can be done without waiting; nothing if it cannot.
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

    /// Looks out for what comes in, for at most this long and without letting the thread sleep: what answers at once is
    /// heard sooner so than by way of the executor. Others that want the processor get it.
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

    /// How many bytes of these there are to be read, which stay where they are.
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

    /// Ready once more can be written; one that nobody had to wait for yet counts as such.
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

/// What comes of an operation that would have to wait, within this time; the thread does not sleep.
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

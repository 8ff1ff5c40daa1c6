//! One connection of a guest's.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codebox_egress::{Connection, EgressError, TlsConnection, TlsFacts, TlsOffer, TlsRoots};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::reply::Reply;
use super::{MAX_ANSWER, in_time};

/// Bytes read ahead of a guest at first: most answers are no longer, and wiping room for more takes longer than they do.
const FIRST_AHEAD: usize = 8 << 10;

/// Bytes read ahead of it at once after that.
const READ_AHEAD: usize = 64 << 10;

/// How long an answer may take that is not slept over: being woken up takes about as long.
const AT_ONCE: Duration = Duration::from_micros(100);

/// The bit of a number of bytes that says that they are to stay where they are.
const PEEK: u32 = 1 << 31;

pub(super) struct Socket {
    stream: Stream,
    ahead: Ahead,
    end: End,
    /// Bytes that TLS has sealed and the system has not all taken. The guest was not told that they went: it sends them
    /// again, as OpenSSL has it, and what it is told then is that.
    owed: usize,
    host: String,
    port: u16,
}

enum Stream {
    Plain(Connection),
    Tls(Box<TlsConnection>),
}

/// What was read and not handed over.
#[derive(Default)]
struct Ahead {
    room: Vec<u8>,
    from: usize,
    to: usize,
}

impl Ahead {
    fn bytes(&self) -> &[u8] {
        &self.room[self.from..self.to]
    }

    /// Room to read into, once all is handed over.
    fn room(&mut self) -> ReadBuf<'_> {
        (self.from, self.to) = (0, 0);
        self.room.resize(if self.room.is_empty() { FIRST_AHEAD } else { READ_AHEAD }, 0);
        ReadBuf::new(&mut self.room)
    }
}

/// How reading ended.
enum End {
    NotYet,
    Whole,
    /// With an error, which is told once what was read before is handed over.
    Failed(Option<io::Error>),
}

impl Socket {
    pub(super) fn new(connection: Connection, host: String, port: u16) -> Self {
        Self { stream: Stream::Plain(connection), ahead: Ahead::default(), end: End::NotYet, owed: 0, host, port }
    }

    /// What was connected to.
    pub(super) fn place(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(super) async fn start_tls(
        self,
        name: &str,
        offer: &TlsOffer<'_>,
        roots: &TlsRoots,
    ) -> Result<(Self, TlsFacts), EgressError> {
        let Self { stream, ahead, end, owed, host, port } = self;
        let Stream::Plain(connection) = stream else {
            return Err(unfit(name, "there is TLS on this connection already"));
        };
        if !ahead.bytes().is_empty() {
            return Err(unfit(name, "the other side spoke before TLS"));
        }
        let stream = connection.start_tls(name, roots, offer).await?;
        let facts = stream.facts();
        Ok((Self { stream: Stream::Tls(Box::new(stream)), ahead, end, owed, host, port }, facts))
    }

    /// Sends all of these, or as many as go at once where it is not to wait for as long as that takes. The answer is
    /// nothing if that is all of them, and otherwise how many; the others were not taken.
    pub(super) async fn send(&mut self, bytes: &[u8], wait: Option<Duration>) -> Reply {
        if self.owed > bytes.len() {
            return Reply::failed("tls", "EPROTO", "bad write retry: what could not be sent has to be sent first");
        }
        let mut sent = 0;
        let sending = async {
            while sent < bytes.len() {
                sent += std::future::poll_fn(|cx| self.poll_send(cx, &bytes[sent..])).await?;
                // Whoever does not wait for all of it is told at once what has gone: nothing is owed beside it.
                if wait.is_some() {
                    break;
                }
            }
            Ok::<_, io::Error>(())
        };
        match in_time(wait, sending).await {
            Some(Ok(())) if sent == bytes.len() => Reply::Nothing,
            Some(Ok(())) => Reply::Done(u32::try_from(sent).unwrap_or(u32::MAX).to_le_bytes().to_vec()),
            Some(Err(error)) => Reply::of_io(&error),
            None => Reply::Late,
        }
    }

    /// Sends some of these; ready once as many are with the system.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.owed == 0 {
            self.owed = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
            if self.owed == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(mem::take(&mut self.owed)))
    }

    /// Ready once more can be sent, or that fails.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.owed > 0 && ready!(Pin::new(&mut self.stream).poll_flush(cx)).is_err() {
            return Poll::Ready(());
        }
        match &mut self.stream {
            Stream::Plain(connection) => connection.poll_writable(cx),
            Stream::Tls(connection) => connection.poll_writable(cx),
        }
    }

    pub(super) async fn shut_down(&mut self) -> Reply {
        match self.stream.shutdown().await {
            Ok(()) => Reply::Nothing,
            Err(error) => Reply::of_io(&error),
        }
    }

    pub(super) async fn receive(&mut self, number: u32) -> Reply {
        let most = usize::try_from(number & !PEEK).unwrap_or(MAX_ANSWER).min(MAX_ANSWER);
        if most == 0 {
            return Reply::Done(Vec::new());
        }
        std::future::poll_fn(|cx| self.poll_readable(cx)).await;
        if self.ahead.bytes().is_empty()
            && let End::Failed(error) = &mut self.end
        {
            return error.take().map_or_else(Reply::closed, |error| Reply::of_io(&error));
        }
        let bytes = self.ahead.bytes();
        let given = bytes[..most.min(bytes.len())].to_vec();
        if number & PEEK == 0 {
            self.ahead.from += given.len();
        }
        Reply::Done(given)
    }

    /// Looks out for an answer that comes at once, without going to sleep over it.
    pub(super) fn look_out(&self) {
        if let (Stream::Plain(connection), true, End::NotYet) = (&self.stream, self.ahead.bytes().is_empty(), &self.end)
        {
            connection.look_out(AT_ONCE);
        }
    }

    /// Reads ahead; ready once there is something to hand over, be it the end.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.ahead.bytes().is_empty() || !matches!(self.end, End::NotYet) {
            return Poll::Ready(());
        }
        if self.owed > 0 {
            // The other side may have to hear that before it speaks; that it fails is for reading, or the next send, to tell.
            let _flushed = Pin::new(&mut self.stream).poll_flush(cx);
        }
        let mut room = self.ahead.room();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room));
        let count = room.filled().len();
        self.end = match read {
            Ok(()) if count > 0 => {
                self.ahead.to = count;
                End::NotYet
            }
            Ok(()) => End::Whole,
            // The other side may leave without a word of TLS; what came before is whole by itself, or its framing tells.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => End::Whole,
            Err(error) => End::Failed(Some(error)),
        };
        Poll::Ready(())
    }
}

/// TLS on a connection that is not fit for it.
fn unfit(name: &str, why: &str) -> EgressError {
    EgressError::Tls { host: name.to_owned(), source: io::Error::other(why) }
}

impl Stream {
    fn inner(&mut self) -> Pin<&mut (dyn Both + Unpin)> {
        match self {
            Self::Plain(connection) => Pin::new(connection),
            Self::Tls(connection) => Pin::new(connection.as_mut()),
        }
    }
}

trait Both: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Both for T {}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}

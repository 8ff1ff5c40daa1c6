//! One connection of a guest.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codebox_egress::{Connection, EgressError, TlsConnection, TlsFacts, TlsOffer, TlsRoots};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use super::reply::Reply;
use super::{MAX_ANSWER, in_time};

/// Size of the first read-ahead buffer: most answers fit into it, and zeroing a larger buffer takes longer than the
/// read.
const FIRST_AHEAD: usize = 8 << 10;

/// Size of the read-ahead buffer after the first read.
const READ_AHEAD: usize = 64 << 10;

/// Maximum time to busy-wait for an answer: waking up from sleep takes about as long.
const AT_ONCE: Duration = Duration::from_micros(100);

/// Flag in a number of bytes: the bytes stay in the buffer.
const PEEK: u32 = 1 << 31;

pub(super) struct Socket {
    stream: Stream,
    ahead: Ahead,
    end: End,
    /// Number of bytes that TLS has encrypted and the system has not completely accepted. The guest has not received
    /// their count. It has to send the same bytes again, as with OpenSSL, and then receives the count.
    owed: usize,
    host: String,
    port: u16,
}

enum Stream {
    Plain(Connection),
    Tls(Box<TlsConnection>),
}

/// Bytes that were read and are not passed to the guest yet.
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

    /// Returns the buffer for the next read. The previous bytes have to be consumed before.
    fn room(&mut self) -> ReadBuf<'_> {
        (self.from, self.to) = (0, 0);
        self.room.resize(if self.room.is_empty() { FIRST_AHEAD } else { READ_AHEAD }, 0);
        ReadBuf::new(&mut self.room)
    }
}

/// The end of reading.
enum End {
    NotYet,
    Whole,
    /// An error, which is reported once, after the bytes that were read before it.
    Failed(Option<io::Error>),
}

impl Socket {
    pub(super) fn new(connection: Connection, host: String, port: u16) -> Self {
        Self { stream: Stream::Plain(connection), ahead: Ahead::default(), end: End::NotYet, owed: 0, host, port }
    }

    /// Returns the host and the port of the connection.
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
            return Err(unfit(name, "TLS is already active on this connection"));
        };
        if !ahead.bytes().is_empty() {
            return Err(unfit(name, "the peer sent data before the TLS handshake"));
        }
        let stream = connection.start_tls(name, roots, offer).await?;
        let facts = stream.facts();
        Ok((Self { stream: Stream::Tls(Box::new(stream)), ahead, end, owed, host, port }, facts))
    }

    /// Sends all of these bytes or, if there is a time limit, as many as can be sent at once. The reply is
    /// [`Reply::Nothing`] if all bytes were sent, and otherwise their count. The remaining bytes were not accepted.
    pub(super) async fn send(&mut self, bytes: &[u8], wait: Option<Duration>) -> Reply {
        if self.owed > bytes.len() {
            return Reply::failed("tls", "EPROTO", "bad write retry: unsent data must be sent first");
        }
        let mut sent = 0;
        let sending = async {
            while sent < bytes.len() {
                sent += std::future::poll_fn(|cx| self.poll_send(cx, &bytes[sent..])).await?;
                // With a time limit, the count is returned at once, so that no other bytes are owed.
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

    /// Sends some of these bytes. Ready with their count once the system has accepted them.
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

    /// Returns ready once more bytes can be sent or sending fails.
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

    /// Busy-waits for an answer that arrives at once, without putting the thread to sleep.
    pub(super) fn look_out(&self) {
        if let (Stream::Plain(connection), true, End::NotYet) = (&self.stream, self.ahead.bytes().is_empty(), &self.end)
        {
            connection.look_out(AT_ONCE);
        }
    }

    /// Reads ahead. Ready once there are bytes or the end of reading.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.ahead.bytes().is_empty() || !matches!(self.end, End::NotYet) {
            return Poll::Ready(());
        }
        if self.owed > 0 {
            // The other side may need these bytes before it answers. The read below or the next send reports a failure.
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
            // The other side may close the connection without a TLS close notification. The framing of the data, if
            // there is any, shows that data is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => End::Whole,
            Err(error) => End::Failed(Some(error)),
        };
        Poll::Ready(())
    }
}

/// Returns the error for a connection on which TLS cannot start.
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

//! One connection of a guest.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use codebox_egress::{Connection, EgressError, TlsConnection, TlsFacts, TlsOffer, TlsRoots};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::reply::Reply;
use super::secrets::SecretFilter;
use super::{MAX_ANSWER, with_timeout};

/// Size of the first read-ahead buffer: most answers fit into it, and zeroing a larger buffer takes longer than the
/// read.
const INITIAL_READ_AHEAD: usize = 8 << 10;

/// Size of the read-ahead buffer after the first read.
const READ_AHEAD: usize = 64 << 10;

/// Maximum time to busy-wait for an answer: waking up from sleep takes about as long.
const BUSY_WAIT: Duration = Duration::from_micros(100);

/// Maximum time to write the requests of a connection that is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the end of received data is held if it may be the beginning of a value.
pub(super) const HOLD_TIME: Duration = Duration::from_millis(100);

/// Maximum number of bytes that a send with a time limit takes: they count as sent before the system has accepted them.
const MAX_TAKEN: usize = 16 << 10;

/// Flag in a number of bytes: the bytes stay in the buffer.
const PEEK: u32 = 1 << 31;

pub(super) struct Socket {
    stream: Stream,
    read_ahead: ReadBuffer,
    read_state: ReadState,
    /// Number of bytes that TLS has encrypted and the system has not completely accepted. The guest has not received
    /// their count. It has to send the same bytes again, as with OpenSSL, and then receives the count.
    pending_write: usize,
    secrets: Option<Secrets>,
    host: String,
    port: u16,
}

/// The secrets of the other side.
struct Secrets {
    filter: SecretFilter,
    /// Received bytes that may be the beginning of a value, and the time until which they are held.
    held: Vec<u8>,
    hold: Option<Pin<Box<Sleep>>>,
    /// True if the guest has ended its data, and the end is not written yet.
    ends: bool,
    /// Rewritten requests that are not written yet. The guest has the count of its own bytes already.
    unsent: Vec<u8>,
}

impl From<SecretFilter> for Secrets {
    fn from(filter: SecretFilter) -> Self {
        Self { filter, held: Vec::new(), hold: None, ends: false, unsent: Vec::new() }
    }
}

enum Stream {
    Plain(Connection),
    Tls(Box<TlsConnection>),
}

/// Bytes that were read and are not passed to the guest yet.
#[derive(Default)]
struct ReadBuffer {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl ReadBuffer {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// Replaces the bytes. The previous ones have to be consumed before.
    fn set(&mut self, bytes: Vec<u8>) {
        (self.from, self.to, self.buffer) = (0, bytes.len(), bytes);
    }

    /// Returns the buffer for the next read. The previous bytes have to be consumed before.
    fn buffer(&mut self) -> ReadBuf<'_> {
        (self.from, self.to) = (0, 0);
        self.buffer.resize(if self.buffer.is_empty() { INITIAL_READ_AHEAD } else { READ_AHEAD }, 0);
        ReadBuf::new(&mut self.buffer)
    }
}

/// The end of reading.
enum ReadState {
    Open,
    Eof,
    /// An error, which is reported once, after the bytes that were read before it.
    Failed(Option<io::Error>),
}

impl Socket {
    pub(super) fn new(connection: Connection, host: String, port: u16, secrets: Option<SecretFilter>) -> Self {
        Self {
            stream: Stream::Plain(connection),
            read_ahead: ReadBuffer::default(),
            read_state: ReadState::Open,
            pending_write: 0,
            secrets: secrets.map(Secrets::from),
            host,
            port,
        }
    }

    /// Returns the host and the port of the connection.
    pub(super) fn peer(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    pub(super) async fn start_tls(
        self,
        name: &str,
        offer: &TlsOffer<'_>,
        roots: &TlsRoots,
        secrets: Option<SecretFilter>,
    ) -> Result<(Self, TlsFacts), EgressError> {
        let Self { stream, read_ahead, read_state, pending_write, secrets: before, host, port } = self;
        let Stream::Plain(connection) = stream else {
            return Err(tls_error(name, "TLS is already active on this connection"));
        };
        if !read_ahead.bytes().is_empty() || before.as_ref().is_some_and(|before| !before.held.is_empty()) {
            return Err(tls_error(name, "the peer sent data before the TLS handshake"));
        }
        if before.is_some_and(|mut before| !before.unsent.is_empty() || !before.filter.requests.finish().is_empty()) {
            return Err(tls_error(name, "data is not sent yet"));
        }
        let stream = connection.start_tls(name, roots, offer).await?;
        let facts = stream.facts();
        let (stream, secrets) = (Stream::Tls(Box::new(stream)), secrets.map(Secrets::from));
        Ok((Self { stream, read_ahead, read_state, pending_write, secrets, host, port }, facts))
    }

    /// Sends all of these bytes or, if there is a time limit, as many as can be sent at once. The reply is
    /// [`Reply::Empty`] if all bytes were sent, and otherwise their count. The remaining bytes were not accepted.
    pub(super) async fn send(&mut self, bytes: &[u8], wait: Option<Duration>) -> Reply {
        if self.secrets.is_some() {
            return self.send_filtered(bytes, wait).await;
        }
        if self.pending_write > bytes.len() {
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
        match with_timeout(wait, sending).await {
            Some(Ok(())) if sent == bytes.len() => Reply::Empty,
            Some(Ok(())) => Reply::Done(u32::try_from(sent).unwrap_or(u32::MAX).to_le_bytes().to_vec()),
            Some(Err(error)) => Reply::from_io(&error),
            None => Reply::Timeout,
        }
    }

    /// Sends all of these bytes with secrets in place of placeholders. With a time limit, a part of them counts as sent once the ones
    /// before them are written, and the next operations write them.
    async fn send_filtered(&mut self, bytes: &[u8], wait: Option<Duration>) -> Reply {
        match with_timeout(wait, std::future::poll_fn(|cx| self.poll_flush_held(cx))).await {
            Some(Ok(())) => {}
            Some(Err(error)) => return Reply::from_io(&error),
            None => return Reply::Timeout,
        }
        let taken = if wait.is_some() { &bytes[..bytes.len().min(MAX_TAKEN)] } else { bytes };
        if let Some(secrets) = &mut self.secrets {
            match secrets.filter.requests.push(taken) {
                Ok(request) => secrets.unsent = request,
                Err(error) => return Reply::from_secret(&error),
            }
        }
        match with_timeout(wait, std::future::poll_fn(|cx| self.poll_flush_held(cx))).await {
            Some(Err(error)) => Reply::from_io(&error),
            Some(Ok(())) | None if taken.len() == bytes.len() => Reply::Empty,
            Some(Ok(())) | None => Reply::Done(u32::try_from(taken.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec()),
        }
    }

    /// Writes the rewritten requests. Ready once the system has accepted all of them.
    fn poll_flush_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, secrets: Some(secrets), .. } = self else { return Poll::Ready(Ok(())) };
        while !secrets.unsent.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, &secrets.unsent))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            secrets.unsent.drain(..written);
        }
        ready!(Pin::new(&mut *stream).poll_flush(cx))?;
        if secrets.ends {
            ready!(Pin::new(stream).poll_shutdown(cx))?;
            secrets.ends = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the rewritten requests of a connection that is about to be closed, as far as the other side accepts them in time.
    pub(super) async fn flush_held(&mut self) {
        if self.secrets.as_ref().is_some_and(|secrets| secrets.ends || !secrets.unsent.is_empty()) {
            let _written = with_timeout(Some(CLOSE_TIMEOUT), std::future::poll_fn(|cx| self.poll_flush_held(cx))).await;
        }
    }

    /// Sends some of these bytes. Ready with their count once the system has accepted them.
    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.pending_write == 0 {
            self.pending_write = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
            if self.pending_write == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        Poll::Ready(Ok(mem::take(&mut self.pending_write)))
    }

    /// Returns ready once more bytes can be sent or sending fails.
    pub(super) fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.pending_write > 0 && ready!(Pin::new(&mut self.stream).poll_flush(cx)).is_err() {
            return Poll::Ready(());
        }
        if ready!(self.poll_flush_held(cx)).is_err() {
            return Poll::Ready(());
        }
        match &mut self.stream {
            Stream::Plain(connection) => connection.poll_writable(cx),
            Stream::Tls(connection) => connection.poll_writable(cx),
        }
    }

    pub(super) async fn shut_down(&mut self) -> Reply {
        if let Some(secrets) = &mut self.secrets {
            let incomplete = secrets.filter.requests.finish();
            secrets.unsent.extend(incomplete);
            secrets.ends = true;
            // The system does not wait for the other side either: the next operations write the rest.
            let written = with_timeout(Some(Duration::ZERO), std::future::poll_fn(|cx| self.poll_flush_held(cx))).await;
            return written.map_or(Reply::Empty, |written| {
                written.map_or_else(|error| Reply::from_io(&error), |()| Reply::Empty)
            });
        }
        match self.stream.shutdown().await {
            Ok(()) => Reply::Empty,
            Err(error) => Reply::from_io(&error),
        }
    }

    pub(super) async fn receive(&mut self, number: u32) -> Reply {
        let max_len = usize::try_from(number & !PEEK).unwrap_or(MAX_ANSWER).min(MAX_ANSWER);
        if max_len == 0 {
            return Reply::Done(Vec::new());
        }
        std::future::poll_fn(|cx| self.poll_readable(cx)).await;
        if self.read_ahead.bytes().is_empty()
            && let ReadState::Failed(error) = &mut self.read_state
        {
            return error.take().map_or_else(Reply::closed, |error| Reply::from_io(&error));
        }
        let bytes = self.read_ahead.bytes();
        let returned = bytes[..max_len.min(bytes.len())].to_vec();
        if number & PEEK == 0 {
            self.read_ahead.from += returned.len();
        }
        Reply::Done(returned)
    }

    /// Busy-waits for an answer that arrives at once, without putting the thread to sleep.
    pub(super) fn busy_poll(&self) {
        if let (Stream::Plain(connection), true, ReadState::Open) =
            (&self.stream, self.read_ahead.bytes().is_empty(), &self.read_state)
        {
            connection.busy_poll(BUSY_WAIT);
        }
    }

    /// Reads ahead. Ready once there are bytes or the end of reading.
    pub(super) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !self.read_ahead.bytes().is_empty() || !matches!(self.read_state, ReadState::Open) {
                return Poll::Ready(());
            }
            if self.pending_write > 0 {
                // The other side may need these bytes before it answers. The read below or the next send reports a failure.
                let _flushed = Pin::new(&mut self.stream).poll_flush(cx);
            }
            let _flushed = self.poll_flush_held(cx);
            if let Some(Secrets { filter, held, hold, .. }) = &mut self.secrets
                && !held.is_empty()
                && hold.get_or_insert_with(|| Box::pin(sleep(HOLD_TIME))).as_mut().poll(cx).is_ready()
            {
                self.read_ahead.set(filter.answers.take_all(held));
                continue;
            }
            let mut buffer = self.read_ahead.buffer();
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
            let count = buffer.filled().len();
            self.read_state = match read {
                Ok(()) if count > 0 => {
                    self.read_ahead.to = count;
                    ReadState::Open
                }
                Ok(()) => ReadState::Eof,
                // The other side may close the connection without a TLS close notification. The framing of the data, if
                // there is any, shows that data is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => ReadState::Eof,
                Err(error) => ReadState::Failed(Some(error)),
            };
            if let Some(Secrets { filter, held, hold, .. }) = &mut self.secrets {
                *hold = None;
                held.extend_from_slice(self.read_ahead.bytes());
                let is_open = matches!(self.read_state, ReadState::Open);
                let mask = &mut filter.answers;
                self.read_ahead.set(if is_open { mask.take_complete(held) } else { mask.take_all(held) });
            }
        }
    }
}

/// Returns the error for a connection on which TLS cannot start.
fn tls_error(name: &str, why: &str) -> EgressError {
    EgressError::Tls { host: name.to_owned(), source: io::Error::other(why) }
}

impl Stream {
    fn inner(&mut self) -> Pin<&mut (dyn AsyncStream + Unpin)> {
        match self {
            Self::Plain(connection) => Pin::new(connection),
            Self::Tls(connection) => Pin::new(connection.as_mut()),
        }
    }
}

trait AsyncStream: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> AsyncStream for T {}

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

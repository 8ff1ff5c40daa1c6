//! Requests to the program in a virtual machine.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebox_vm_guest::{Exec, Facts, Frame, GREETING, MAX_FRAME, MAX_LINE, NONCE_SIZE, Reply, Request};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt as _, TokioAsyncReadCompatExt as _};
use yamux::{Config, Connection, ConnectionError, Mode};

use crate::error::{Layer, VmError};
use crate::provider::ByteStream;

/// Maximum number of streams at once.
const MAX_STREAMS: usize = 1024;

/// Time for the answer to a request that the machine performs at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a stream of a command's output in bytes.
const MAX_OUTPUT: usize = 16 << 20;

const FIX: &str = "see codebox vm logs, and restart it with codebox vm down";

/// Stream to the program in a virtual machine.
pub type Stream = Compat<yamux::Stream>;

type Opened = Result<yamux::Stream, ConnectionError>;

/// Connection to the program in a virtual machine, from which any number of requests start. The clones share it.
#[derive(Debug, Clone)]
pub struct Channel {
    wanted: mpsc::Sender<oneshot::Sender<Opened>>,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// Exit status, or 128 and the number of a signal.
    pub status: i32,
    /// Standard output, up to 16 MiB.
    pub stdout: Vec<u8>,
    /// Standard error, up to 16 MiB.
    pub stderr: Vec<u8>,
}

/// Piece of the output of a command, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutput {
    /// Bytes of standard output.
    Stdout(Vec<u8>),
    /// Bytes of standard error.
    Stderr(Vec<u8>),
    /// Exit status, or 128 and the number of a signal.
    Ended(i32),
}

impl CommandOutput {
    /// Reads the next one.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let (kind, length) = (from.read_u8().await?, from.read_u32().await?);
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_OUTPUT);
        let mut bytes = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        from.read_exact(&mut bytes).await?;
        match kind {
            kind if kind == Frame::Stdout as u8 => Ok(Self::Stdout(bytes)),
            kind if kind == Frame::Stderr as u8 => Ok(Self::Stderr(bytes)),
            _ => {
                let status = bytes.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
                Ok(Self::Ended(i32::from_be_bytes(status)))
            }
        }
    }
}

impl Channel {
    /// Begins a connection over a byte stream. `wait` is the time for the machine to answer, which can be starting.
    ///
    /// # Errors
    /// Returns an error if the machine does not answer in that time.
    pub async fn open(mut stream: Box<dyn ByteStream>, wait: Duration) -> Result<Self, VmError> {
        match timeout(wait, greet_until_answer(&mut stream)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(lost(&error)),
            Err(_) => {
                let reason = format!("it has not answered within {} s", wait.as_secs());
                return Err(VmError::new(Layer::Vm, reason, FIX));
            }
        }
        let mut config = Config::default();
        config.set_max_num_streams(MAX_STREAMS).set_max_connection_receive_window(None);
        config.set_read_after_close(true);
        config.set_split_send_size(MAX_FRAME);
        let (wanted, queue) = mpsc::channel(16);
        tokio::spawn(drive(Connection::new(stream.compat(), config, Mode::Client), queue));
        Ok(Self { wanted })
    }

    /// Returns true if the machine has ended the connection.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.wanted.is_closed()
    }

    /// Waits for the end of the connection.
    pub async fn closed(&self) {
        self.wanted.closed().await;
    }

    /// Connects to Podman.
    ///
    /// # Errors
    /// Returns an error if the machine or Podman does not answer.
    pub async fn podman(&self) -> Result<Stream, VmError> {
        match self.request(&Request::Podman).await? {
            (Reply::Done, stream) => Ok(stream),
            (reply, _) => Err(refused(Layer::Podman, reply)),
        }
    }

    /// Starts a command. The stream takes its standard input, and has its [output](CommandOutput).
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub(crate) async fn exec(&self, command: Exec) -> Result<Stream, VmError> {
        match self.request(&Request::Exec(command)).await? {
            (Reply::Done, stream) => Ok(stream),
            (reply, _) => Err(refused(Layer::Vm, reply)),
        }
    }

    /// Runs a command with an input, and waits for its end.
    ///
    /// # Errors
    /// Returns an error if it cannot be started, or the machine ends before it.
    pub async fn run(&self, command: Exec, input: &[u8]) -> Result<CommandResult, VmError> {
        let (mut reader, mut writer) = tokio::io::split(self.exec(command).await?);
        let feeding = async {
            // The command need not read all of it.
            let _ = writer.write_all(input).await;
            let _ = writer.shutdown().await;
            std::future::pending::<()>().await;
        };
        let reading = async {
            let mut result = CommandResult { status: 0, stdout: Vec::new(), stderr: Vec::new() };
            loop {
                let (mut bytes, output) = match CommandOutput::read(&mut reader).await? {
                    CommandOutput::Stdout(bytes) => (bytes, &mut result.stdout),
                    CommandOutput::Stderr(bytes) => (bytes, &mut result.stderr),
                    CommandOutput::Ended(status) => {
                        result.status = status;
                        return Ok(result);
                    }
                };
                bytes.truncate(MAX_OUTPUT - output.len());
                output.extend(bytes);
            }
        };
        tokio::select! {
            result = reading => result.map_err(|error: io::Error| lost(&error)),
            () = feeding => Err(lost(&io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns facts about the machine.
    ///
    /// # Errors
    /// Returns an error if it does not answer.
    pub async fn facts(&self) -> Result<Facts, VmError> {
        match self.request(&Request::Facts).await?.0 {
            Reply::Facts(facts) => Ok(facts),
            reply => Err(refused(Layer::Vm, reply)),
        }
    }

    /// Sets the clock of the machine to that of this one.
    ///
    /// # Errors
    /// Returns an error if it does not answer.
    pub async fn set_clock(&self) -> Result<(), VmError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.done(&Request::SetClock(u64::try_from(now.as_millis()).unwrap_or(u64::MAX))).await
    }

    /// Turns the machine off. It ends its processes and writes its disk first.
    ///
    /// # Errors
    /// Returns an error if it does not answer.
    pub async fn power_off(&self) -> Result<(), VmError> {
        self.done(&Request::PowerOff).await
    }

    async fn done(&self, request: &Request) -> Result<(), VmError> {
        match self.request(request).await?.0 {
            Reply::Done => Ok(()),
            reply => Err(refused(Layer::Vm, reply)),
        }
    }

    /// Sends a request on a stream of its own, and returns the reply and the rest of the stream.
    pub(crate) async fn request(&self, request: &Request) -> Result<(Reply, Stream), VmError> {
        let exchange = async {
            let (sender, opened) = oneshot::channel();
            let gone = || io::Error::from(io::ErrorKind::ConnectionReset);
            self.wanted.send(sender).await.map_err(|_| gone())?;
            let mut stream = opened.await.map_err(|_| gone())?.map_err(io::Error::other)?.compat();
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            stream.write_all(&line).await?;
            stream.flush().await?;
            let mut answer = Vec::new();
            // One byte at a time: the bytes after the line belong to Podman or to the command.
            while answer.last() != Some(&b'\n') {
                if answer.len() > MAX_LINE {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                answer.push(stream.read_u8().await?);
            }
            Ok((serde_json::from_slice(&answer)?, stream))
        };
        match timeout(REPLY_TIMEOUT, exchange).await {
            Ok(answered) => answered.map_err(|error: io::Error| lost(&error)),
            Err(_) => Err(lost(&io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Time for the answer to the first greeting, which grows with each further one.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

/// Greets the machine until it answers. The greeting after a connection that has just ended can be lost in the rest of that one.
async fn greet_until_answer(stream: &mut Box<dyn ByteStream>) -> io::Result<()> {
    for attempt in 1.. {
        let nonce: [u8; NONCE_SIZE] = rand::random();
        if let Ok(greeted) = timeout(attempt * GREETING_TIMEOUT, greet(stream, &nonce)).await {
            return greeted;
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Sends the greeting, and reads up to its echo.
async fn greet(stream: &mut Box<dyn ByteStream>, nonce: &[u8]) -> io::Result<()> {
    let greeting = [GREETING, nonce].concat();
    stream.write_all(&greeting).await?;
    stream.flush().await?;
    let mut last = std::collections::VecDeque::with_capacity(greeting.len());
    while last != greeting {
        if last.len() == greeting.len() {
            last.pop_front();
        }
        last.push_back(stream.read_u8().await?);
    }
    Ok(())
}

/// Opens streams as they are wanted, until the connection ends.
async fn drive(
    mut connection: Connection<Compat<Box<dyn ByteStream>>>,
    mut wanted: mpsc::Receiver<oneshot::Sender<Opened>>,
) {
    let mut next: Option<oneshot::Sender<Opened>> = None;
    poll_fn(|cx: &mut Context<'_>| {
        loop {
            if next.is_none() {
                match wanted.poll_recv(cx) {
                    Poll::Ready(Some(sender)) => next = Some(sender),
                    // No channel is left.
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            if let Some(sender) = next.take() {
                match connection.poll_new_outbound(cx) {
                    Poll::Ready(opened) => {
                        let _ = sender.send(opened);
                        continue;
                    }
                    Poll::Pending => next = Some(sender),
                }
            }
            match connection.poll_next_inbound(cx) {
                // The machine opens no streams.
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
}

pub(crate) fn lost(error: &io::Error) -> VmError {
    VmError::new(Layer::Network, format!("the connection was lost: {error}"), FIX)
}

pub(crate) fn refused(layer: Layer, reply: Reply) -> VmError {
    let reason = match reply {
        Reply::Failed(reason) => reason,
        Reply::Done | Reply::Shared(_) | Reply::Facts(_) => "unexpected answer".to_owned(),
    };
    VmError::new(layer, reason, FIX)
}

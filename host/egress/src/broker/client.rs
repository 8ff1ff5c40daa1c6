//! The confined process's end of the line.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codebox_core::{BoxFuture, NetRules};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use super::{BrokerConfig, ConnectOutcome, ConnectReply, ConnectRequest, MAX_MESSAGE_SIZE};
use crate::dial::{Dial, DialError, DialedStream};
use crate::stream::busy_retry;

/// The time for which an answer is polled without sleeping, because a wake-up takes longer than a local connection.
const BUSY_POLL_TIME: Duration = Duration::from_micros(100);

/// A client of a broker.
pub struct BrokerClient {
    rules: NetRules,
    socket: OwnedFd,
    /// The line as registered with an executor, created on first use. Data is read through `socket` itself.
    registered: tokio::sync::OnceCell<UnixStream>,
    /// The holder of this mutex receives the answers, including those to other requests.
    receive_lock: tokio::sync::Mutex<()>,
    pending: Mutex<PendingRequests>,
}

#[derive(Default)]
struct PendingRequests {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<(ConnectOutcome, Option<OwnedFd>)>>,
}

impl BrokerClient {
    /// Sends the grants and limits to a broker at the other end of `socket`.
    ///
    /// # Errors
    /// An error if the other end is closed, or if the rules are too many for one message.
    pub fn configure(socket: OwnedFd, rules: &NetRules, connections: Option<u64>) -> io::Result<Self> {
        let config = serde_json::to_vec(&BrokerConfig::of(rules, connections))?;
        if config.len() > MAX_MESSAGE_SIZE {
            return Err(io::Error::other("too many network grants"));
        }
        rustix::io::write(&socket, &config)?;
        Ok(Self::attach(socket, rules))
    }

    /// Creates a client of a broker that already has its grants and limits.
    #[must_use]
    pub fn attach(socket: OwnedFd, rules: &NetRules) -> Self {
        let (registered, receive_lock) = (tokio::sync::OnceCell::new(), tokio::sync::Mutex::new(()));
        Self { rules: rules.clone(), socket, registered, receive_lock, pending: Mutex::default() }
    }

    /// Returns the number of the line's descriptor, for a filter that lets descriptors be received over this descriptor
    /// alone.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn pending(&self) -> MutexGuard<'_, PendingRequests> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, host: &str, port: u16) -> Result<DialedStream, DialError> {
        // A name that is not granted is not even sent.
        self.rules.name(host, port)?;
        let (answer, mut response) = oneshot::channel();
        let id = {
            let mut pending = self.pending();
            pending.last += 1;
            let id = pending.last;
            pending.waiting.insert(id, answer);
            id
        };
        let _guard = PendingGuard(self, id);
        let request =
            serde_json::to_vec(&ConnectRequest { id, host: host.to_owned(), port }).map_err(io::Error::from)?;
        match rustix::io::write(&self.socket, &request) {
            Err(Errno::AGAIN) => {
                let socket = self.socket().await?;
                socket.async_io(Interest::WRITABLE, || Ok(rustix::io::write(socket, &request)?)).await?;
            }
            written => drop(written.map_err(io::Error::from)?),
        }
        let (found, connection) = loop {
            tokio::select! {
                biased;
                answer = &mut response => break answer.map_err(|_| broker_gone())?,
                reply = self.receive_answer() => reply?,
            }
        };
        match (found, connection) {
            (ConnectOutcome::Connected(address), Some(stream)) => {
                Ok(DialedStream { stream: TcpStream::from(stream), address })
            }
            (ConnectOutcome::Refused(address), _) => Err(self.refusal(host, port, address)),
            (ConnectOutcome::Failed(failure), _) => Err(io::Error::from(failure).into()),
            (ConnectOutcome::Connected(_), None) => Err(broker_gone().into()),
        }
    }

    /// Returns the refusal, which follows from the rules alone.
    fn refusal(&self, host: &str, port: u16, address: Option<IpAddr>) -> DialError {
        let verdict = match address {
            Some(address) => self.rules.address(host, address, port),
            None => self.rules.name(host, port),
        };
        verdict.map_or_else(DialError::from, |()| io::Error::from(io::ErrorKind::PermissionDenied).into())
    }

    async fn socket(&self) -> io::Result<&UnixStream> {
        self.registered.get_or_try_init(|| async { UnixStream::from_std(self.socket.try_clone()?.into()) }).await
    }

    /// Receives one answer and passes it to the task that waits for it.
    async fn receive_answer(&self) -> io::Result<()> {
        let _receive_lock = self.receive_lock.lock().await;
        let (answer, connection) = match busy_retry(BUSY_POLL_TIME, || receive(&self.socket)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket().await?.async_io(Interest::READABLE, || receive(&self.socket)).await?
            }
            reply => reply?,
        };
        if let Some(waiting) = self.pending().waiting.remove(&answer.id) {
            // If the waiting task is gone, dropping the message closes the connection.
            let _ = waiting.send((answer.found, connection));
        }
        Ok(())
    }
}

/// Guard that removes a pending request on drop.
struct PendingGuard<'a>(&'a BrokerClient, u64);

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.0.pending().waiting.remove(&self.1);
    }
}

fn broker_gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the network broker has exited")
}

fn receive(socket: &OwnedFd) -> io::Result<(ConnectReply, Option<OwnedFd>)> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(socket.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut connection = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            connection = descriptors.into_iter().next();
        }
    }
    let answer = bytes.get(..received.bytes).filter(|bytes| !bytes.is_empty()).ok_or_else(broker_gone)?;
    Ok((serde_json::from_slice(answer)?, connection))
}

impl Dial for BrokerClient {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<DialedStream, DialError>> {
        Box::pin(self.connect(host, port))
    }
}

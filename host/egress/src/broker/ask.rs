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

use super::{Answer, Found, MOST, Terms, Wanted};
use crate::dial::{Dial, DialError, Dialed};
use crate::stream::soon;

/// The time for which an answer is polled without sleeping, because a wake-up takes longer than a local connection.
const AT_ONCE: Duration = Duration::from_micros(100);

/// A client of a broker.
pub struct Broker {
    rules: NetRules,
    line: OwnedFd,
    /// The line as registered with an executor, created on first use. Data is read through `line` itself.
    registered: tokio::sync::OnceCell<UnixStream>,
    /// The holder of this mutex receives the answers, including those to other requests.
    hearing: tokio::sync::Mutex<()>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    last: u64,
    waiting: HashMap<u64, oneshot::Sender<(Found, Option<OwnedFd>)>>,
}

impl Broker {
    /// Sends the grants and limits to a broker at the other end of `line`.
    ///
    /// # Errors
    /// An error if the other end is closed, or if the rules are too many for one message.
    pub fn at(line: OwnedFd, rules: &NetRules, connections: Option<u64>) -> io::Result<Self> {
        let terms = serde_json::to_vec(&Terms::of(rules, connections))?;
        if terms.len() > MOST {
            return Err(io::Error::other("too many network grants"));
        }
        rustix::io::write(&line, &terms)?;
        Ok(Self::resumed(line, rules))
    }

    /// Creates a client of a broker that already has its grants and limits.
    #[must_use]
    pub fn resumed(line: OwnedFd, rules: &NetRules) -> Self {
        let (registered, hearing) = (tokio::sync::OnceCell::new(), tokio::sync::Mutex::new(()));
        Self { rules: rules.clone(), line, registered, hearing, asked: Mutex::default() }
    }

    /// Returns the number of the line's descriptor, for a filter that lets descriptors be received over this descriptor
    /// alone.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.line.as_raw_fd()
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, host: &str, port: u16) -> Result<Dialed, DialError> {
        // A name that is not granted is not even sent.
        self.rules.name(host, port)?;
        let (answer, mut mine) = oneshot::channel();
        let id = {
            let mut asked = self.asked();
            asked.last += 1;
            let id = asked.last;
            asked.waiting.insert(id, answer);
            id
        };
        let _forgotten_in_the_end = Forget(self, id);
        let wanted = serde_json::to_vec(&Wanted { id, host: host.to_owned(), port }).map_err(io::Error::from)?;
        match rustix::io::write(&self.line, &wanted) {
            Err(Errno::AGAIN) => {
                let line = self.line().await?;
                line.async_io(Interest::WRITABLE, || Ok(rustix::io::write(line, &wanted)?)).await?;
            }
            written => drop(written.map_err(io::Error::from)?),
        }
        let (found, connection) = loop {
            tokio::select! {
                biased;
                answer = &mut mine => break answer.map_err(|_| lost())?,
                heard = self.hear() => heard?,
            }
        };
        match (found, connection) {
            (Found::Connected(address), Some(stream)) => Ok(Dialed { stream: TcpStream::from(stream), address }),
            (Found::Refused(address), _) => Err(self.refusal(host, port, address)),
            (Found::Failed(failure), _) => Err(io::Error::from(failure).into()),
            (Found::Connected(_), None) => Err(lost().into()),
        }
    }

    /// Returns the refusal, which follows from the rules alone.
    fn refusal(&self, host: &str, port: u16, address: Option<IpAddr>) -> DialError {
        let judged = match address {
            Some(address) => self.rules.address(host, address, port),
            None => self.rules.name(host, port),
        };
        judged.map_or_else(DialError::from, |()| io::Error::from(io::ErrorKind::PermissionDenied).into())
    }

    async fn line(&self) -> io::Result<&UnixStream> {
        self.registered.get_or_try_init(|| async { UnixStream::from_std(self.line.try_clone()?.into()) }).await
    }

    /// Receives one answer and passes it to the task that waits for it.
    async fn hear(&self) -> io::Result<()> {
        let _hearing = self.hearing.lock().await;
        let (answer, connection) = match soon(AT_ONCE, || receive(&self.line)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.line().await?.async_io(Interest::READABLE, || receive(&self.line)).await?
            }
            heard => heard?,
        };
        if let Some(waiting) = self.asked().waiting.remove(&answer.id) {
            // If the waiting task is gone, dropping the message closes the connection.
            let _ = waiting.send((answer.found, connection));
        }
        Ok(())
    }
}

/// Guard that removes a pending request on drop.
struct Forget<'a>(&'a Broker, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.asked().waiting.remove(&self.1);
    }
}

fn lost() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the network broker has exited")
}

fn receive(line: &OwnedFd) -> io::Result<(Answer, Option<OwnedFd>)> {
    let mut bytes = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let received = recvmsg(line.as_fd(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut connection = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            connection = descriptors.into_iter().next();
        }
    }
    let answer = bytes.get(..received.bytes).filter(|bytes| !bytes.is_empty()).ok_or_else(lost)?;
    Ok((serde_json::from_slice(answer)?, connection))
}

impl Dial for Broker {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Dialed, DialError>> {
        Box::pin(self.connect(host, port))
    }
}

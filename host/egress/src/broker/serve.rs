//! The broker's end of the line.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Poll;

use codebox_core::NetRules;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{BrokerConfig, ConnectOutcome, ConnectReply, ConnectRequest, MAX_MESSAGE_SIZE};
use crate::dial::{DialError, DialedStream, dial_direct};
use crate::egress::CONNECT_TIMEOUT;

/// The largest number of connection attempts at a time.
const MAX_CONCURRENT_CONNECTS: usize = 64;

/// Makes connections as requested over `socket`, until the other end is closed. Runs in a process of its own.
///
/// # Errors
/// An error if the line fails or a message is malformed; the process at the other end may be compromised.
pub async fn serve(socket: OwnedFd) -> io::Result<()> {
    let socket = Arc::new(UnixStream::from_std(socket.into())?);
    let mut buffer = vec![0; MAX_MESSAGE_SIZE];
    let Some(config) = next_message(&socket, &mut buffer).await? else { return Ok(()) };
    let config: BrokerConfig = serde_json::from_slice(config)?;
    let rules = Arc::new(config.rules()?);
    let mut remaining = config.connections.unwrap_or(u64::MAX);
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTS));
    while let Some(request) = next_message(&socket, &mut buffer).await? {
        let request: ConnectRequest = serde_json::from_slice(request)?;
        // A regular client enforces the limit itself. A client that does not is compromised.
        remaining = remaining.checked_sub(1).ok_or_else(|| io::Error::other("connection limit reached"))?;
        let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (socket, rules) = (socket.clone(), rules.clone());
        let mut work = Box::pin(async move {
            // If the client is gone, the next read returns an end of file.
            let _result = respond(&socket, &rules, request).await;
            drop(permit);
        });
        // A connection that is established at once is handled before the next request is read.
        if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
            tokio::spawn(work);
        }
    }
    Ok(())
}

/// Returns the next message, or `None` if the other end is closed.
async fn next_message<'a>(socket: &UnixStream, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    let count = socket.async_io(Interest::READABLE, || Ok(rustix::io::read(socket, &mut *buffer)?)).await?;
    Ok(buffer.get(..count).filter(|message| !message.is_empty()))
}

async fn respond(socket: &UnixStream, rules: &NetRules, request: ConnectRequest) -> io::Result<()> {
    let ConnectRequest { id, host, port } = request;
    let dialed = match timeout(CONNECT_TIMEOUT, dial_direct(rules, &host, port)).await {
        Ok(dialed) => dialed,
        Err(_late) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    };
    let (found, stream) = match dialed {
        Ok(DialedStream { stream, address }) => (ConnectOutcome::Connected(address), Some(stream)),
        Err(DialError::Refused(refusal)) => (ConnectOutcome::Refused(refusal.address()), None),
        Err(DialError::Failed(error)) => (ConnectOutcome::Failed((&error).into()), None),
    };
    let answer = serde_json::to_vec(&ConnectReply { id, found })?;
    let attached = stream.as_ref().map(|stream| stream.as_fd());
    match send(socket.as_fd(), &answer, attached) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            socket.async_io(Interest::WRITABLE, || send(socket.as_fd(), &answer, attached)).await
        }
        sent => sent,
    }
}

fn send(socket: BorrowedFd<'_>, answer: &[u8], attached: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = attached.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(socket, &[IoSlice::new(answer)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

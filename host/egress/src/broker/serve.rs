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

use super::{Answer, Found, MOST, Terms, Wanted};
use crate::dial::{DialError, Dialed, direct};
use crate::egress::CONNECT_TIME;

/// The largest number of connection attempts at a time.
const AT_ONCE: usize = 64;

/// Makes connections as requested over `line`, until the other end is closed. Runs in a process of its own.
///
/// # Errors
/// An error if the line fails or a message is malformed; the process at the other end may be compromised.
pub async fn serve(line: OwnedFd) -> io::Result<()> {
    let line = Arc::new(UnixStream::from_std(line.into())?);
    let mut room = vec![0; MOST];
    let Some(terms) = next(&line, &mut room).await? else { return Ok(()) };
    let terms: Terms = serde_json::from_slice(terms)?;
    let rules = Arc::new(terms.rules()?);
    let mut left = terms.connections.unwrap_or(u64::MAX);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(wanted) = next(&line, &mut room).await? {
        let wanted: Wanted = serde_json::from_slice(wanted)?;
        // A regular client enforces the limit itself. A client that does not is compromised.
        left = left.checked_sub(1).ok_or_else(|| io::Error::other("connection limit reached"))?;
        let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (line, rules) = (line.clone(), rules.clone());
        let mut work = Box::pin(async move {
            // If the client is gone, the next read returns an end of file.
            let _told = tell(&line, &rules, wanted).await;
            drop(place);
        });
        // A connection that is established at once is handled before the next request is read.
        if poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await.is_pending() {
            tokio::spawn(work);
        }
    }
    Ok(())
}

/// Returns the next message, or `None` if the other end is closed.
async fn next<'a>(line: &UnixStream, room: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    let count = line.async_io(Interest::READABLE, || Ok(rustix::io::read(line, &mut *room)?)).await?;
    Ok(room.get(..count).filter(|message| !message.is_empty()))
}

async fn tell(line: &UnixStream, rules: &NetRules, wanted: Wanted) -> io::Result<()> {
    let Wanted { id, host, port } = wanted;
    let dialed = match timeout(CONNECT_TIME, direct(rules, &host, port)).await {
        Ok(dialed) => dialed,
        Err(_late) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
    };
    let (found, stream) = match dialed {
        Ok(Dialed { stream, address }) => (Found::Connected(address), Some(stream)),
        Err(DialError::Refused(refusal)) => (Found::Refused(refusal.address()), None),
        Err(DialError::Failed(error)) => (Found::Failed((&error).into()), None),
    };
    let answer = serde_json::to_vec(&Answer { id, found })?;
    let passed = stream.as_ref().map(|stream| stream.as_fd());
    match send(line.as_fd(), &answer, passed) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            line.async_io(Interest::WRITABLE, || send(line.as_fd(), &answer, passed)).await
        }
        sent => sent,
    }
}

fn send(line: BorrowedFd<'_>, answer: &[u8], passed: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = passed.into_iter().collect();
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(line, &[IoSlice::new(answer)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

//! From a host's name to a connection to an address that was checked.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use codebox_core::{AddressKind, BoxFuture, NetRules, Refusal, RefusalReason};
use thiserror::Error;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// How long one of several addresses may take to answer.
const ONE_ADDRESS: Duration = Duration::from_secs(3);

/// Most names that are looked up at one time; each takes a thread for as long as the system's resolver takes.
static LOOKUPS: Semaphore = Semaphore::const_new(16);

/// A connection, and where it goes.
#[derive(Debug)]
pub struct Dialed {
    /// The connection.
    pub stream: TcpStream,
    /// The address, which was checked.
    pub address: IpAddr,
}

/// Why nothing was connected.
#[derive(Debug, Error)]
pub enum DialError {
    /// The rules do not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be done.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Connects for somebody who cannot do it itself.
pub trait Dial: Send + Sync {
    /// Looks `host` up, checks what it leads to and connects to it, as [`direct`] does.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<Dialed, DialError>>;
}

/// Who connects.
#[derive(Clone, Default)]
pub enum Dialer {
    /// This process.
    #[default]
    Direct,
    /// Somebody else.
    Other(Arc<dyn Dial>),
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "Direct",
            Self::Other(_) => "Other",
        })
    }
}

/// Looks `host` up if its name is granted, and connects to the first of its addresses that is granted and answers.
///
/// It takes as long as it takes: whoever calls it gives it up in time.
///
/// # Errors
/// When the name or all its addresses are refused, there are none, or none answers.
pub async fn direct(rules: &NetRules, host: &str, port: u16) -> Result<Dialed, DialError> {
    rules.name(host, port)?;
    let found = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        // Without the final dot, with which no file of names has it.
        Err(_) => look_up(host.strip_suffix('.').unwrap_or(host).to_owned(), port).await?,
    };
    let mut refused = None;
    let mut granted = Vec::new();
    for address in found {
        let own = || match rules.opens(address, port) || !is_own(address) {
            true => Ok(()),
            false => Err(Refusal::new(RefusalReason::Address(AddressKind::Own), host, port, Some(address))),
        };
        match rules.address(host, address, port).and_then(|()| own()) {
            Ok(()) => granted.push(address),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    granted.truncate(MOST_ADDRESSES);
    let patience = if granted.len() > 1 { ONE_ADDRESS } else { Duration::MAX };
    let mut failed = None;
    for address in granted {
        match timeout(patience, connect(SocketAddr::new(address, port))).await {
            Ok(Ok(stream)) => {
                // A request goes out at once, however small.
                let _ = stream.set_nodelay(true);
                return Ok(Dialed { stream, address });
            }
            Ok(Err(error)) => failed = Some(error),
            Err(_late) => failed = Some(crate::egress::late(ONE_ADDRESS)),
        }
    }
    Err(match (failed, refused) {
        (Some(error), _) => error.into(),
        (None, Some(refusal)) => refusal.into(),
        (None, None) => io::Error::new(io::ErrorKind::NotFound, "the name leads to no address").into(),
    })
}

/// Whether an address is one of this machine's, loopback apart: its services may serve others than those who are on it.
fn is_own(address: IpAddr) -> bool {
    // A system binds sockets to its own addresses only.
    !address.is_loopback() && UdpSocket::bind((address, 0)).is_ok()
}

/// A connection to an address, which does not block.
#[cfg(target_os = "linux")]
async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?);
    // What is near has answered by the time of the second call, and then nobody has to wait for it.
    for _ in 0..2 {
        match connect(&stream, &to) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(stream),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let stream = tokio::net::TcpStream::from_std(stream)?;
    stream.writable().await?;
    match stream.take_error()? {
        Some(error) => Err(error),
        None => stream.into_std(),
    }
}

/// A connection to an address, which does not block.
#[cfg(not(target_os = "linux"))]
async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    tokio::net::TcpStream::connect(to).await?.into_std()
}

/// Asks the system's resolver, on a thread that nobody has to wait for.
async fn look_up(host: String, port: u16) -> io::Result<Vec<IpAddr>> {
    let permit = LOOKUPS.acquire().await.map_err(io::Error::other)?;
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("look-up".to_owned()).spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        drop(permit);
        // The resolver's errors have no kind of their own.
        let found = found.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error));
        let _ = sender.send(found.map(|found| found.map(|address| address.ip()).collect()));
    })?;
    receiver.await.unwrap_or_else(|_gone| Err(io::Error::other("the resolver is gone")))
}

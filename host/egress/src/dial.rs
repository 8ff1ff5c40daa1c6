//! Name resolution, address checks and connecting.

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

use crate::error::timeout_error;

/// The largest number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// The time in which one of several addresses must answer.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);

/// The limit on concurrent lookups. Each lookup occupies a thread until the system's resolver returns.
static LOOKUP_PERMITS: Semaphore = Semaphore::const_new(16);

/// A connection and the address that it leads to.
#[derive(Debug)]
pub struct DialedStream {
    /// The connection.
    pub stream: TcpStream,
    /// The checked address.
    pub address: IpAddr,
}

/// Error of connecting.
#[derive(Debug, Error)]
pub enum DialError {
    /// The rules do not allow the connection.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The lookup or the connection failed.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// A service that connects on behalf of a caller that cannot.
pub trait Dial: Send + Sync {
    /// Resolves `host` if its name is granted, and connects to the first address that is granted and answers.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Result<DialedStream, DialError>>;
}

/// The means of connecting.
#[derive(Clone, Default)]
pub enum Dialer {
    /// A connection by this process.
    #[default]
    Direct,
    /// A connection by another dialer, such as a broker.
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

/// Resolves `host` if its name is granted, and connects to the first address that is granted and answers.
///
/// The function has no overall time limit; the caller sets one.
///
/// # Errors
/// An error if the name or all its addresses are refused, if it has no addresses, or if none of them answers.
pub(crate) async fn dial_direct(rules: &NetRules, host: &str, port: u16) -> Result<DialedStream, DialError> {
    rules.name(host, port)?;
    let found = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        // The final dot is removed, because the hosts file has names without it.
        Err(_) => resolve(host.strip_suffix('.').unwrap_or(host).to_owned(), port).await?,
    };
    let mut refused = None;
    let mut granted = Vec::new();
    for address in found {
        let check_local = || match rules.allows_address(address, port) || !is_local_address(address) {
            true => Ok(()),
            false => Err(Refusal::new(RefusalReason::Address(AddressKind::ThisMachine), host, port, Some(address))),
        };
        match rules.address(host, address, port).and_then(|()| check_local()) {
            Ok(()) => granted.push(address),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    granted.truncate(MAX_ADDRESSES);
    let time_limit = if granted.len() > 1 { ADDRESS_TIMEOUT } else { Duration::MAX };
    let mut failed = None;
    for address in granted {
        match timeout(time_limit, connect(SocketAddr::new(address, port))).await {
            Ok(Ok(stream)) => {
                // Small requests are sent without delay.
                let _ = stream.set_nodelay(true);
                return Ok(DialedStream { stream, address });
            }
            Ok(Err(error)) => failed = Some(error),
            Err(_late) => failed = Some(timeout_error(ADDRESS_TIMEOUT)),
        }
    }
    Err(match (failed, refused) {
        (Some(error), _) => error.into(),
        (None, Some(refusal)) => refusal.into(),
        (None, None) => io::Error::new(io::ErrorKind::NotFound, "the host name does not resolve to an address").into(),
    })
}

/// Returns true if an address other than loopback belongs to this machine. Services on such an address may not be meant
/// for programs on this machine.
fn is_local_address(address: IpAddr) -> bool {
    // A system binds sockets only to its own addresses.
    !address.is_loopback() && UdpSocket::bind((address, 0)).is_ok()
}

/// Connects to an address. The stream is non-blocking.
#[cfg(target_os = "linux")]
async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let stream = TcpStream::from(socket_with(family, SocketType::STREAM, flags, None)?);
    // A local connection is established by the second call, which avoids a wake-up.
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

/// Connects to an address. The stream is non-blocking.
#[cfg(not(target_os = "linux"))]
async fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    tokio::net::TcpStream::connect(to).await?.into_std()
}

/// Calls the system's resolver on a detached thread.
async fn resolve(host: String, port: u16) -> io::Result<Vec<IpAddr>> {
    let permit = LOOKUP_PERMITS.acquire().await.map_err(io::Error::other)?;
    let (sender, receiver) = oneshot::channel();
    thread::Builder::new().name("look-up".to_owned()).spawn(move || {
        let found = (host.as_str(), port).to_socket_addrs();
        drop(permit);
        // The resolver's errors have no specific kind.
        let found = found.map_err(|error| io::Error::new(io::ErrorKind::NotFound, error));
        let _ = sender.send(found.map(|found| found.map(|address| address.ip()).collect()));
    })?;
    receiver.await.unwrap_or_else(|_gone| Err(io::Error::other("the resolver thread has exited")))
}

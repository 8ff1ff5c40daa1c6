//! Connecting for a process that has confined itself.
//!
//! Such a process can make no socket. Before it gives that up it starts another one, the broker, and keeps a line to it:
//! a Unix socket whose messages stay whole. It asks for a host and a port; the broker judges the name, looks it up,
//! judges the addresses, connects, and passes the connection over as a descriptor. So whoever breaks out of a guest into
//! the confined process finds connections to granted hosts there, and the same list before it gets any further one.
//!
//! The broker ends when the line does.

use std::io;
use std::net::IpAddr;

use codebox_core::{NetGrant, NetRules};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

mod ask;
mod serve;

pub use ask::Broker;
pub use serve::serve;

/// Most bytes of one message; rules may be many.
const MOST: usize = 128 << 10;

/// What a broker is told first: whom it may connect to.
#[derive(Serialize, Deserialize)]
struct Terms {
    grants: Vec<String>,
    /// Most connections that it makes.
    connections: Option<u64>,
}

/// What it is asked for.
#[derive(Serialize, Deserialize)]
struct Wanted {
    id: u64,
    host: String,
    port: u16,
}

/// What it answers; a connection comes with it.
#[derive(Serialize, Deserialize)]
struct Answer {
    id: u64,
    found: Found,
}

#[derive(Serialize, Deserialize)]
enum Found {
    Connected(IpAddr),
    /// The name was refused, or this address that it led to.
    Refused(Option<IpAddr>),
    Failed(Failure),
}

/// An error of the system's, as far as it passes on.
#[derive(Serialize, Deserialize)]
struct Failure {
    os: Option<i32>,
    kind: FailureKind,
    text: String,
}

/// What is told apart of the errors that are not the system's own.
#[derive(Serialize, Deserialize)]
enum FailureKind {
    /// The name leads nowhere.
    NotFound,
    /// Nobody answered in time.
    TimedOut,
    Other,
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => FailureKind::NotFound,
            io::ErrorKind::TimedOut => FailureKind::TimedOut,
            _ => FailureKind::Other,
        };
        Self { os: error.raw_os_error(), kind, text: error.to_string() }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        let Failure { os, kind, text } = failure;
        match (os, kind) {
            (Some(number), _) => Self::from_raw_os_error(number),
            (None, FailureKind::NotFound) => Self::new(io::ErrorKind::NotFound, text),
            (None, FailureKind::TimedOut) => Self::new(io::ErrorKind::TimedOut, text),
            (None, FailureKind::Other) => Self::other(text),
        }
    }
}

/// A line to a broker: this process's end, and the broker's.
///
/// # Errors
/// The system's, when it has no more sockets.
pub fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl Terms {
    fn of(rules: &NetRules, connections: Option<u64>) -> Self {
        Self { grants: rules.0.iter().map(ToString::to_string).collect(), connections }
    }

    fn rules(&self) -> io::Result<NetRules> {
        let grants = self.grants.iter().map(|grant| NetGrant::new(grant));
        grants.collect::<Result<_, _>>().map(NetRules).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_is_passes_over_the_line() {
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::TimedOut, io::ErrorKind::Other] {
            let told = serde_json::to_vec(&Failure::from(&io::Error::new(kind, "why"))).expect("it is plain");
            let heard = io::Error::from(serde_json::from_slice::<Failure>(&told).expect("it is whole"));
            assert_eq!((heard.kind(), heard.to_string()), (kind, "why".to_owned()));
        }
    }
}

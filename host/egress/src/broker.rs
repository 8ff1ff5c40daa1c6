//! Connections on behalf of a process that has confined itself.
//!
//! A confined process cannot create sockets. Before confinement it starts another process, the broker, and keeps a Unix
//! socket of type `SEQPACKET` to it, called the line. The confined process requests a host and a port. The broker
//! checks the name against the grants, resolves it, checks the addresses, connects, and passes the connection back as a
//! descriptor. An attacker who breaks out of a guest into the confined process finds only connections to granted hosts,
//! and any further connection is checked against the same grants.
//!
//! The broker ends when the line is closed.

use std::io;
use std::net::IpAddr;

use codebox_core::{NetGrant, NetRules};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

mod client;
mod serve;

pub use client::BrokerClient;
pub use serve::serve;

/// The largest message in bytes. The first message contains all rules, which may be many.
const MAX_MESSAGE_SIZE: usize = 128 << 10;

/// The first message to a broker: the hosts to which it may connect.
#[derive(Serialize, Deserialize)]
struct BrokerConfig {
    grants: Vec<String>,
    /// The largest number of connections that the broker makes.
    connections: Option<u64>,
}

/// A request for a connection.
#[derive(Serialize, Deserialize)]
struct ConnectRequest {
    id: u64,
    host: String,
    port: u16,
}

/// The answer to a request. The descriptor of an established connection is attached to the message.
#[derive(Serialize, Deserialize)]
struct ConnectReply {
    id: u64,
    found: ConnectOutcome,
}

#[derive(Serialize, Deserialize)]
enum ConnectOutcome {
    Connected(IpAddr),
    /// The grants refuse the name, or this address to which the name resolved.
    Refused(Option<IpAddr>),
    Failed(WireError),
}

/// An I/O error in the form in which it is sent over the line.
#[derive(Serialize, Deserialize)]
struct WireError {
    os: Option<i32>,
    kind: WireErrorKind,
    text: String,
}

/// The kinds of errors without an OS error code.
#[derive(Serialize, Deserialize)]
enum WireErrorKind {
    /// The name does not resolve.
    NotFound,
    /// The connection timed out.
    TimedOut,
    Other,
}

impl From<&io::Error> for WireError {
    fn from(error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => WireErrorKind::NotFound,
            io::ErrorKind::TimedOut => WireErrorKind::TimedOut,
            _ => WireErrorKind::Other,
        };
        Self { os: error.raw_os_error(), kind, text: error.to_string() }
    }
}

impl From<WireError> for io::Error {
    fn from(failure: WireError) -> Self {
        let WireError { os, kind, text } = failure;
        match (os, kind) {
            (Some(number), _) => Self::from_raw_os_error(number),
            (None, WireErrorKind::NotFound) => Self::new(io::ErrorKind::NotFound, text),
            (None, WireErrorKind::TimedOut) => Self::new(io::ErrorKind::TimedOut, text),
            (None, WireErrorKind::Other) => Self::other(text),
        }
    }
}

/// Creates a line to a broker: the end of this process, and the end of the broker.
///
/// # Errors
/// The system's error if it has no more sockets.
pub fn channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

impl BrokerConfig {
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
    fn errors_round_trip_over_the_channel() {
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::TimedOut, io::ErrorKind::Other] {
            let encoded =
                serde_json::to_vec(&WireError::from(&io::Error::new(kind, "why"))).expect("the error is serializable");
            let decoded =
                io::Error::from(serde_json::from_slice::<WireError>(&encoded).expect("the error is valid JSON"));
            assert_eq!((decoded.kind(), decoded.to_string()), (kind, "why".to_owned()));
        }
    }
}

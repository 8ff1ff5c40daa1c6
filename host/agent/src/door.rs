//! Doors: where inside a container a way out of it begins.
//!
//! A container has no network but its own loopback. The agent listens there, at each of a job's doors, and carries what
//! comes and goes over its line to the host, which alone knows where a door leads, connects, and counts. Nothing is named
//! on the way but numbers: a connection's, which the agent gives, and its door's.
//!
//! Each way of a connection has room for [`WINDOW`] bytes. Whoever sends takes from it, and gets back what the other side
//! has passed on. So a program or a remote host that takes nothing holds up its own connection and no other.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Bytes of one way of a connection that are under way at the most.
pub const WINDOW: usize = 256 << 10;

/// Most bytes in one piece.
pub const MOST_PIECE: usize = 32 << 10;

/// Most connections that are open at one time; more wait to be taken.
pub const MOST_CONNECTIONS: usize = 128;

/// Where the agent listens for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The address, one of the container's loopback.
    pub address: Ipv4Addr,
    /// The port.
    pub port: u16,
}

/// What is said of a connection, in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// No more bytes come this way.
    End,
    /// There is no such connection any more, once the bytes before this were passed on.
    Gone,
    /// So many of the other's bytes were passed on.
    Taken(u32),
}

const BYTES: u8 = 0;
const END: u8 = 1;
const GONE: u8 = 2;
const TAKEN: u8 = 3;

impl Said {
    /// What was said of the connection of this number, as a payload.
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Bytes(bytes) => (BYTES, bytes),
            Self::End => (END, &[]),
            Self::Gone => (GONE, &[]),
            Self::Taken(count) => (TAKEN, &count.to_be_bytes()),
        };
        let mut payload = Vec::with_capacity(5 + rest.len());
        payload.extend(number.to_be_bytes());
        payload.push(kind);
        payload.extend(rest);
        payload
    }

    /// The connection and what is said of it, or nothing for what is neither.
    pub(crate) fn decode(payload: &[u8]) -> Option<(u32, Self)> {
        let (number, rest) = payload.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let said = match (*kind, rest) {
            (BYTES, bytes) => Self::Bytes(bytes.to_vec()),
            (END, []) => Self::End,
            (GONE, []) => Self::Gone,
            (TAKEN, count) => Self::Taken(u32::from_be_bytes(count.try_into().ok()?)),
            _ => return None,
        };
        Some((u32::from_be_bytes(*number), said))
    }
}

//! Port forwards: loopback ports of a container that the agent forwards to the host.
//!
//! A container has no network except its own loopback. The agent listens on each forwarded port of a job and carries
//! the data over its connection to the host. Only the host knows the target of a port forward; the host connects to the
//! target and counts the traffic. The protocol identifies a connection by a number that the agent assigns, and a port
//! forward by its index.
//!
//! Each direction of a connection has a window of [`WINDOW`] bytes. Sending uses up the window, and [`StreamEvent::WindowUpdate`]
//! from the peer restores it. A program or a remote host that stops reading therefore blocks only its own connection.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// Most bytes in flight in one direction of a connection.
pub const WINDOW: usize = 256 << 10;

/// Most bytes in one [`StreamEvent::Bytes`].
pub const MAX_CHUNK_SIZE: usize = 32 << 10;

/// Most connections that are open at one time. Further connections wait in the accept queue.
pub const MAX_CONNECTIONS: usize = 128;

/// A loopback address and port on which the agent listens for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortForward {
    /// An address of the container's loopback.
    pub address: Ipv4Addr,
    /// The port.
    pub port: u16,
}

/// An event of a connection, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// End of the stream in this direction.
    End,
    /// End of the connection, once the bytes sent before it have been delivered.
    Closed,
    /// Number of bytes that the receiver has passed on, which restores the sender's window.
    WindowUpdate(u32),
}

const BYTES: u8 = 0;
const END: u8 = 1;
const CLOSED: u8 = 2;
const WINDOW_UPDATE: u8 = 3;

impl StreamEvent {
    /// Encodes the event of the connection `number` as a payload.
    pub(crate) fn encode(&self, number: u32) -> Vec<u8> {
        let (kind, rest): (u8, &[u8]) = match self {
            Self::Bytes(bytes) => (BYTES, bytes),
            Self::End => (END, &[]),
            Self::Closed => (CLOSED, &[]),
            Self::WindowUpdate(count) => (WINDOW_UPDATE, &count.to_be_bytes()),
        };
        let mut payload = Vec::with_capacity(5 + rest.len());
        payload.extend(number.to_be_bytes());
        payload.push(kind);
        payload.extend(rest);
        payload
    }

    /// Decodes a payload into the connection's number and its event. Returns `None` if the payload is invalid.
    pub(crate) fn decode(payload: &[u8]) -> Option<(u32, Self)> {
        let (number, rest) = payload.split_first_chunk()?;
        let (kind, rest) = rest.split_first()?;
        let event = match (*kind, rest) {
            (BYTES, bytes) => Self::Bytes(bytes.to_vec()),
            (END, []) => Self::End,
            (CLOSED, []) => Self::Closed,
            (WINDOW_UPDATE, count) => Self::WindowUpdate(u32::from_be_bytes(count.try_into().ok()?)),
            _ => return None,
        };
        Some((u32::from_be_bytes(*number), event))
    }
}

//! Idle connections, kept between exchanges.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hyper::client::conn::http1::SendRequest;

use super::body::RequestBody;

/// Maximum number of idle connections to one server.
const MAX_PER_ORIGIN: usize = 8;

/// Maximum number of idle connections in total.
const MAX_TOTAL: usize = 64;

/// The server of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub tls: bool,
    /// The host name or address in lower case.
    pub host: String,
    pub port: u16,
}

/// Open connections for further exchanges, in the order of their last use.
#[derive(Default)]
pub(super) struct IdleConnections(Mutex<VecDeque<(Origin, SendRequest<RequestBody>)>>);

impl IdleConnections {
    /// Removes and returns a connection to this server that is still open.
    pub(super) fn take(&self, origin: &Origin) -> Option<SendRequest<RequestBody>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = kept.iter().rposition(|(other, _)| other == origin) {
            if let Some((_, connection)) = kept.remove(at)
                && connection.is_ready()
            {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection. If there are too many, the connection that was used the longest ago is closed.
    pub(super) fn put(&self, origin: Origin, connection: SendRequest<RequestBody>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, connection)| !connection.is_closed());
        let is_same_origin = |(other, _): &(Origin, SendRequest<RequestBody>)| *other == origin;
        let oldest = if kept.iter().filter(|one| is_same_origin(one)).count() >= MAX_PER_ORIGIN {
            kept.iter().position(is_same_origin)
        } else {
            (kept.len() >= MAX_TOTAL).then_some(0)
        };
        drop(oldest.and_then(|oldest| kept.remove(oldest)));
        kept.push_back((origin, connection));
    }
}

//! Idle connections, kept between exchanges.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hyper::client::conn::http1::SendRequest;

use super::body::RequestBody;

/// Maximum number of idle connections to one server.
const MOST: usize = 8;

/// Maximum number of idle connections in total.
const MOST_IN_ALL: usize = 64;

/// The server of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub tls: bool,
    /// The host name or address in lower case.
    pub host: String,
    pub port: u16,
}

/// Open connections for further exchanges, in the order of their last use.
#[derive(Default)]
pub(super) struct Idle(Mutex<VecDeque<(Place, SendRequest<RequestBody>)>>);

impl Idle {
    /// Removes and returns a connection to this server that is still open.
    pub(super) fn take(&self, place: &Place) -> Option<SendRequest<RequestBody>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = kept.iter().rposition(|(other, _)| other == place) {
            if let Some((_, connection)) = kept.remove(at)
                && connection.is_ready()
            {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection. If there are too many, the connection that was used the longest ago is closed.
    pub(super) fn put(&self, place: Place, connection: SendRequest<RequestBody>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(_, connection)| !connection.is_closed());
        let leads_there = |(other, _): &(Place, SendRequest<RequestBody>)| *other == place;
        let oldest = if kept.iter().filter(|one| leads_there(one)).count() >= MOST {
            kept.iter().position(leads_there)
        } else {
            (kept.len() >= MOST_IN_ALL).then_some(0)
        };
        drop(oldest.and_then(|oldest| kept.remove(oldest)));
        kept.push_back((place, connection));
    }
}

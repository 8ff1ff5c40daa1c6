//! Connections between exchanges.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hyper::client::conn::http1::SendRequest;

use super::body::RequestBody;

/// Connections to one place that are kept.
const MOST: usize = 8;

/// Connections that are kept in all.
const MOST_IN_ALL: usize = 64;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub tls: bool,
    /// In small letters.
    pub host: String,
    pub port: u16,
}

/// Open connections that a further exchange can use, in the order in which they were last used.
#[derive(Default)]
pub(super) struct Idle(Mutex<VecDeque<(Place, SendRequest<RequestBody>)>>);

impl Idle {
    /// One to this place that was not closed since.
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

    /// Keeps one; where there are too many, the one that was used the longest ago is closed.
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

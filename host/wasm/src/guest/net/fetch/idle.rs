//! Connections between exchanges.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hyper::client::conn::http1::SendRequest;

use super::body::RequestBody;

/// Connections to one place that are kept.
const MOST: usize = 8;

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

/// Open connections that a further exchange can use.
#[derive(Default)]
pub(super) struct Idle(Mutex<HashMap<Place, Vec<SendRequest<RequestBody>>>>);

impl Idle {
    /// One to this place that was not closed since.
    pub(super) fn take(&self, place: &Place) -> Option<SendRequest<RequestBody>> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = places.get_mut(place)?;
        while let Some(connection) = kept.pop() {
            if connection.is_ready() {
                return Some(connection);
            }
        }
        None
    }

    pub(super) fn put(&self, place: Place, connection: SendRequest<RequestBody>) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = places.entry(place).or_default();
        kept.retain(|connection| !connection.is_closed());
        if kept.len() < MOST {
            kept.push(connection);
        }
    }
}

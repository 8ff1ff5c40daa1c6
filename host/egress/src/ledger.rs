//! The network ledger of one run: attempts, bytes and limits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{LimitKind, NetAttempt, NetUse, NetVerdict};
use tokio::sync::watch;

/// The largest number of entries that list refusals.
const MOST_REFUSED: usize = 64;

/// The counters and entries of all connections of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    most_bytes: Option<u64>,
    most_connections: Option<u64>,
    state: Mutex<State>,
    over: watch::Sender<Option<LimitKind>>,
}

#[derive(Debug, Default)]
struct State {
    /// The entries by sequence number. Attempts that are alike share an entry.
    listed: BTreeMap<u64, NetAttempt>,
    unlisted: u64,
    sent: u64,
    received: u64,
    connections: u64,
    /// The sequence number of the next entry.
    next: u64,
}

/// A handle on one attempt and its entry.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    attempt: Arc<Mutex<Listed>>,
}

/// The current state of an attempt, and the sequence number of its entry if it is listed.
#[derive(Debug)]
struct Listed {
    attempt: NetAttempt,
    place: Option<u64>,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Out,
    In,
}

impl Ledger {
    pub(crate) fn new(most_bytes: Option<u64>, most_connections: Option<u64>) -> Self {
        let (over, _) = watch::channel(None);
        Self { most_bytes, most_connections, state: Mutex::default(), over }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims one of the allowed connections.
    pub(crate) fn claim(&self) -> Result<(), LimitKind> {
        if let Some(kind) = self.over() {
            return Err(kind);
        }
        let mut state = self.state();
        if self.most_connections.is_some_and(|most| state.connections >= most) {
            drop(state);
            self.end(LimitKind::NetConnections);
            return Err(LimitKind::NetConnections);
        }
        state.connections += 1;
        Ok(())
    }

    /// Records a finished attempt.
    pub(crate) fn list(&self, attempt: NetAttempt) {
        self.state().list(attempt);
    }

    /// Records an attempt that is in progress.
    pub(crate) fn begin(self: &Arc<Self>, attempt: NetAttempt) -> Entry {
        let place = self.state().list(attempt.clone());
        Entry { ledger: Arc::clone(self), attempt: Arc::new(Mutex::new(Listed { attempt, place })) }
    }

    fn end(&self, kind: LimitKind) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(kind);
            first
        });
    }

    pub(crate) fn used(&self) -> NetUse {
        let State { listed, unlisted, sent, received, connections: _, next: _ } = &*self.state();
        let attempts = listed.values().cloned().collect();
        NetUse { attempts, unlisted: *unlisted, sent: *sent, received: *received }
    }

    pub(crate) fn over(&self) -> Option<LimitKind> {
        *self.over.borrow()
    }

    pub(crate) async fn until_over(&self) -> LimitKind {
        let mut over = self.over.subscribe();
        // The sender belongs to this ledger, so it cannot be gone.
        match over.wait_for(Option::is_some).await.map(|kind| *kind) {
            Ok(Some(kind)) => kind,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl State {
    fn list(&mut self, attempt: NetAttempt) -> Option<u64> {
        if let Some((place, alike)) = self.listed.iter_mut().find(|(_, other)| other.is_like(&attempt)) {
            alike.times += 1;
            return Some(*place);
        }
        let is_refused = |attempt: &NetAttempt| matches!(attempt.verdict, NetVerdict::Refused(_));
        // Refusals cost a guest nothing, so they have their own bound: a flood of them must not hide the reached hosts.
        let most = if is_refused(&attempt) { MOST_REFUSED } else { NetUse::MOST_LISTED - MOST_REFUSED };
        if self.listed.values().filter(|other| is_refused(other) == is_refused(&attempt)).count() >= most {
            self.unlisted += 1;
            return None;
        }
        let place = self.next;
        self.next += 1;
        self.listed.insert(place, attempt);
        Some(place)
    }

    /// Removes one attempt from an entry. Its transferred bytes remain counted there.
    fn unlist(&mut self, place: Option<u64>) {
        let Some(place) = place else {
            self.unlisted = self.unlisted.saturating_sub(1);
            return;
        };
        let left = self.listed.get_mut(&place).map(|attempt| {
            attempt.times = attempt.times.saturating_sub(1);
            attempt.times
        });
        if left == Some(0) {
            self.listed.remove(&place);
        }
    }
}

impl Entry {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result of the attempt.
    pub(crate) fn verdict(&self, verdict: NetVerdict, address: Option<IpAddr>) {
        let mut listed = self.listed();
        let mut state = self.ledger.state();
        let moved = listed.place.filter(|place| state.listed.get(place).is_some_and(|one| one.times == 1));
        let bytes = moved.and_then(|place| state.listed.get(&place)).map_or((0, 0), |one| (one.sent, one.received));
        state.unlist(listed.place);
        listed.attempt.verdict = verdict;
        listed.attempt.address = address.or(listed.attempt.address);
        listed.place = state.list(listed.attempt.clone());
        if let Some(attempt) = listed.place.and_then(|place| state.listed.get_mut(&place)) {
            attempt.sent += bytes.0;
            attempt.received += bytes.1;
        }
    }

    /// Calls `transfer` with the largest number of bytes that it may move. `transfer` returns the number of bytes
    /// moved.
    ///
    /// The whole ledger is locked during the call, so that all connections together never exceed the limit. `transfer`
    /// must not block.
    pub(crate) fn transfer<T>(&self, way: Way, transfer: impl FnOnce(usize) -> (usize, T)) -> Result<T, LimitKind> {
        if let Some(kind) = self.ledger.over() {
            return Err(kind);
        }
        let place = self.listed().place;
        let mut state = self.ledger.state();
        let all = state.sent.saturating_add(state.received);
        let left = self.ledger.most_bytes.map_or(u64::MAX, |most| most.saturating_sub(all));
        let (moved, result) = transfer(usize::try_from(left).unwrap_or(usize::MAX));
        let moved = moved as u64;
        let attempt = place.and_then(|place| state.listed.get_mut(&place));
        match way {
            Way::Out => {
                if let Some(attempt) = attempt {
                    attempt.sent += moved;
                }
                state.sent += moved;
            }
            Way::In => {
                if let Some(attempt) = attempt {
                    attempt.received += moved;
                }
                state.received += moved;
            }
        }
        Ok(result)
    }

    /// Waits until any connection reaches a limit.
    pub(crate) fn until_over(&self) -> impl Future<Output = LimitKind> + Send + use<> {
        let ledger = Arc::clone(&self.ledger);
        async move { ledger.until_over().await }
    }

    /// Ends all transfers because the byte limit is exceeded.
    pub(crate) fn overrun(&self) {
        self.ledger.end(LimitKind::NetBytes);
    }
}

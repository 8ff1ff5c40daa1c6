//! The network ledger of one run: attempts, bytes and limits.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{LimitKind, NetAttempt, NetVerdict, NetworkUsage};
use tokio::sync::watch;

/// The largest number of entries that list refusals.
const MAX_REFUSALS: usize = 64;

/// The counters and entries of all connections of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    max_bytes: Option<u64>,
    max_connections: Option<u64>,
    state: Mutex<State>,
    reached_limit: watch::Sender<Option<LimitKind>>,
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
    attempt: Arc<Mutex<ListedAttempt>>,
}

/// The current state of an attempt, and the sequence number of its entry if it is listed.
#[derive(Debug)]
struct ListedAttempt {
    attempt: NetAttempt,
    sequence: Option<u64>,
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Direction {
    Out,
    In,
}

impl Ledger {
    pub(crate) fn new(max_bytes: Option<u64>, max_connections: Option<u64>) -> Self {
        let (reached_limit, _) = watch::channel(None);
        Self { max_bytes, max_connections, state: Mutex::default(), reached_limit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims one of the allowed connections.
    pub(crate) fn claim_connection(&self) -> Result<(), LimitKind> {
        if let Some(kind) = self.reached_limit() {
            return Err(kind);
        }
        let mut state = self.state();
        if self.max_connections.is_some_and(|max| state.connections >= max) {
            drop(state);
            self.reach_limit(LimitKind::NetConnections);
            return Err(LimitKind::NetConnections);
        }
        state.connections += 1;
        Ok(())
    }

    /// Records a finished attempt.
    pub(crate) fn record(&self, attempt: NetAttempt) {
        self.state().record(attempt);
    }

    /// Records an attempt that is in progress.
    pub(crate) fn begin(self: &Arc<Self>, attempt: NetAttempt) -> Entry {
        let sequence = self.state().record(attempt.clone());
        Entry { ledger: Arc::clone(self), attempt: Arc::new(Mutex::new(ListedAttempt { attempt, sequence })) }
    }

    fn reach_limit(&self, kind: LimitKind) {
        self.reached_limit.send_if_modified(|reached_limit| {
            let first = reached_limit.is_none();
            reached_limit.get_or_insert(kind);
            first
        });
    }

    pub(crate) fn used(&self) -> NetworkUsage {
        let State { listed, unlisted, sent, received, connections: _, next: _ } = &*self.state();
        let attempts = listed.values().cloned().collect();
        NetworkUsage { attempts, unlisted: *unlisted, sent: *sent, received: *received }
    }

    pub(crate) fn reached_limit(&self) -> Option<LimitKind> {
        *self.reached_limit.borrow()
    }

    pub(crate) async fn limit_reached(&self) -> LimitKind {
        let mut reached_limit = self.reached_limit.subscribe();
        // The sender belongs to this ledger, so it cannot be gone.
        match reached_limit.wait_for(Option::is_some).await.map(|kind| *kind) {
            Ok(Some(kind)) => kind,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl State {
    fn record(&mut self, attempt: NetAttempt) -> Option<u64> {
        if let Some((sequence, alike)) = self.listed.iter_mut().find(|(_, other)| other.is_same_attempt(&attempt)) {
            alike.times += 1;
            return Some(*sequence);
        }
        let is_refused = |attempt: &NetAttempt| matches!(attempt.verdict, NetVerdict::Refused(_));
        // Refusals cost a guest nothing, so they have their own bound: a flood of them must not hide the reached hosts.
        let max = if is_refused(&attempt) { MAX_REFUSALS } else { NetworkUsage::MAX_LISTED - MAX_REFUSALS };
        if self.listed.values().filter(|other| is_refused(other) == is_refused(&attempt)).count() >= max {
            self.unlisted += 1;
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.listed.insert(sequence, attempt);
        Some(sequence)
    }

    /// Removes one attempt from an entry. Its transferred bytes remain counted there.
    fn remove_attempt(&mut self, sequence: Option<u64>) {
        let Some(sequence) = sequence else {
            self.unlisted = self.unlisted.saturating_sub(1);
            return;
        };
        let left = self.listed.get_mut(&sequence).map(|attempt| {
            attempt.times = attempt.times.saturating_sub(1);
            attempt.times
        });
        if left == Some(0) {
            self.listed.remove(&sequence);
        }
    }
}

impl Entry {
    fn listed(&self) -> MutexGuard<'_, ListedAttempt> {
        self.attempt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the result of the attempt.
    pub(crate) fn verdict(&self, verdict: NetVerdict, address: Option<IpAddr>) {
        let mut listed = self.listed();
        let mut state = self.ledger.state();
        let moved = listed.sequence.filter(|sequence| state.listed.get(sequence).is_some_and(|one| one.times == 1));
        let bytes =
            moved.and_then(|sequence| state.listed.get(&sequence)).map_or((0, 0), |one| (one.sent, one.received));
        state.remove_attempt(listed.sequence);
        listed.attempt.verdict = verdict;
        listed.attempt.address = address.or(listed.attempt.address);
        listed.sequence = state.record(listed.attempt.clone());
        if let Some(attempt) = listed.sequence.and_then(|sequence| state.listed.get_mut(&sequence)) {
            attempt.sent += bytes.0;
            attempt.received += bytes.1;
        }
    }

    /// Calls `transfer` with the largest number of bytes that it may move. `transfer` returns the number of bytes
    /// moved.
    ///
    /// The whole ledger is locked during the call, so that all connections together never exceed the limit. `transfer`
    /// must not block.
    pub(crate) fn transfer<T>(
        &self,
        direction: Direction,
        transfer: impl FnOnce(usize) -> (usize, T),
    ) -> Result<T, LimitKind> {
        if let Some(kind) = self.ledger.reached_limit() {
            return Err(kind);
        }
        let sequence = self.listed().sequence;
        let mut state = self.ledger.state();
        let all = state.sent.saturating_add(state.received);
        let left = self.ledger.max_bytes.map_or(u64::MAX, |max| max.saturating_sub(all));
        let (moved, result) = transfer(usize::try_from(left).unwrap_or(usize::MAX));
        let moved = moved as u64;
        let attempt = sequence.and_then(|sequence| state.listed.get_mut(&sequence));
        match direction {
            Direction::Out => {
                if let Some(attempt) = attempt {
                    attempt.sent += moved;
                }
                state.sent += moved;
            }
            Direction::In => {
                if let Some(attempt) = attempt {
                    attempt.received += moved;
                }
                state.received += moved;
            }
        }
        Ok(result)
    }

    /// Waits until any connection reaches a limit.
    pub(crate) fn limit_reached(&self) -> impl Future<Output = LimitKind> + Send + use<> {
        let ledger = Arc::clone(&self.ledger);
        async move { ledger.limit_reached().await }
    }

    /// Ends all transfers because the byte limit is exceeded.
    pub(crate) fn end_transfers(&self) {
        self.ledger.reach_limit(LimitKind::NetBytes);
    }
}

//! What one run did: attempts, bytes, limits.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use codebox_core::{LimitKind, NetAttempt, NetUse, NetVerdict};
use tokio::sync::watch;

/// How many of the attempts that are listed may be refused ones.
const MOST_REFUSED: usize = 64;

/// Counts over all connections of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    most_bytes: Option<u64>,
    most_connections: Option<u64>,
    state: Mutex<State>,
    over: watch::Sender<Option<LimitKind>>,
}

#[derive(Debug, Default)]
struct State {
    used: NetUse,
    connections: u64,
}

/// One attempt's place in the list, if it is listed.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    place: Option<usize>,
}

/// Which way bytes go.
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

    /// Takes one of the connections that may be made.
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

    /// Lists an attempt that is over.
    pub(crate) fn list(&self, attempt: NetAttempt) -> Option<usize> {
        let used = &mut self.state().used;
        let is_refused = |attempt: &NetAttempt| matches!(attempt.verdict, NetVerdict::Refused(_));
        // A refusal costs a guest nothing: a flood of them must not hide whom it reached.
        let most = if is_refused(&attempt) { MOST_REFUSED } else { NetUse::MOST_LISTED - MOST_REFUSED };
        if used.attempts.iter().filter(|other| is_refused(other) == is_refused(&attempt)).count() >= most {
            used.unlisted += 1;
            return None;
        }
        used.attempts.push(attempt);
        Some(used.attempts.len() - 1)
    }

    /// Lists an attempt that goes on.
    pub(crate) fn begin(self: &Arc<Self>, attempt: NetAttempt) -> Entry {
        Entry { ledger: Arc::clone(self), place: self.list(attempt) }
    }

    fn end(&self, kind: LimitKind) {
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(kind);
            first
        });
    }

    pub(crate) fn used(&self) -> NetUse {
        self.state().used.clone()
    }

    pub(crate) fn over(&self) -> Option<LimitKind> {
        *self.over.borrow()
    }

    pub(crate) async fn until_over(&self) -> LimitKind {
        let mut over = self.over.subscribe();
        // The sender is this ledger's own, so that there always is one.
        match over.wait_for(Option::is_some).await.map(|kind| *kind) {
            Ok(Some(kind)) => kind,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Entry {
    /// Says what came of the attempt.
    pub(crate) fn verdict(&self, verdict: NetVerdict, address: Option<IpAddr>) {
        let mut state = self.ledger.state();
        if let Some(attempt) = self.place.and_then(|place| state.used.attempts.get_mut(place)) {
            attempt.verdict = verdict;
            attempt.address = address.or(attempt.address);
        }
    }

    /// Moves bytes of which no more than `move_up_to` is told may go; it says how many went.
    ///
    /// The whole ledger is held meanwhile, so that all connections together never move a byte too much; `transfer` must
    /// not wait.
    pub(crate) fn transfer<T>(&self, way: Way, transfer: impl FnOnce(usize) -> (usize, T)) -> Result<T, LimitKind> {
        if let Some(kind) = self.ledger.over() {
            return Err(kind);
        }
        let mut state = self.ledger.state();
        let all = state.used.sent.saturating_add(state.used.received);
        let left = self.ledger.most_bytes.map_or(u64::MAX, |most| most.saturating_sub(all));
        let (moved, result) = transfer(usize::try_from(left).unwrap_or(usize::MAX));
        let moved = moved as u64;
        let place = self.place;
        let State { used, connections: _ } = &mut *state;
        let attempt = place.and_then(|place| used.attempts.get_mut(place));
        match way {
            Way::Out => {
                used.sent += moved;
                if let Some(attempt) = attempt {
                    attempt.sent += moved;
                }
            }
            Way::In => {
                used.received += moved;
                if let Some(attempt) = attempt {
                    attempt.received += moved;
                }
            }
        }
        Ok(result)
    }

    /// Waits until a limit is reached, by whatever connection.
    pub(crate) fn until_over(&self) -> impl Future<Output = LimitKind> + Send + use<> {
        let ledger = Arc::clone(&self.ledger);
        async move { ledger.until_over().await }
    }

    /// More bytes want to go than may.
    pub(crate) fn overrun(&self) {
        self.ledger.end(LimitKind::NetBytes);
    }
}

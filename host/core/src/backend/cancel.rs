use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// A switch that stops a run, shared by its clones and thrown once.
///
/// It can be asked ([`is_cancelled`](Self::is_cancelled)), awaited ([`cancelled`](Self::cancelled)) and made
/// to call back ([`on_cancel`](Self::on_cancel)); it needs no particular async runtime.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Set under the lock, so that nobody can start waiting unseen; read without it.
    thrown: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Who insists on it.
    again: OnceLock<CancelToken>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    by_id: BTreeMap<u64, Wake>,
}

enum Wake {
    Task(Waker),
    Call(Box<dyn FnOnce() + Send>),
}

impl CancelToken {
    /// A switch that nobody has thrown.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Throws the switch: wakes everyone who waits, and runs the callbacks on this thread.
    ///
    /// Later calls do nothing.
    pub fn cancel(&self) {
        let waiting = {
            let mut waiting = self.0.lock();
            self.0.thrown.store(true, Ordering::Release);
            std::mem::take(&mut waiting.by_id)
        };
        // Outside of the lock, because what is woken may ask the switch; tasks first, so that a callback that
        // panics keeps nobody asleep.
        let mut calls = Vec::new();
        for wake in waiting.into_values() {
            match wake {
                Wake::Task(waker) => waker.wake(),
                Wake::Call(call) => calls.push(call),
            }
        }
        for call in calls {
            call();
        }
    }

    /// The switch of whoever insists: thrown after this one, it leaves a program that was asked to end no time for it.
    #[must_use]
    pub fn again(&self) -> &Self {
        self.0.again.get_or_init(Self::default)
    }

    /// Whether the switch was thrown.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.thrown.load(Ordering::Acquire)
    }

    /// A future that is ready once the switch was thrown.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), id: None }
    }

    /// Calls `call` when the switch is thrown; at once if it was.
    ///
    /// The callback runs on whatever thread throws the switch, so it must be quick. Dropping the answer takes
    /// it back, without waiting for a call that has begun.
    #[must_use = "dropping the answer takes the callback back"]
    pub fn on_cancel(&self, call: impl FnOnce() + Send + 'static) -> OnCancel {
        let mut waiting = self.0.lock();
        if self.is_cancelled() {
            drop(waiting);
            call();
            return OnCancel { token: self.clone(), id: None };
        }
        let id = waiting.add(Wake::Call(Box::new(call)));
        OnCancel { token: self.clone(), id: Some(id) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // No code of others runs under the lock, so a poisoned list is still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, id: Option<u64>) {
        let removed = id.and_then(|id| self.lock().by_id.remove(&id));
        // Dropped here, after the lock: it may hold another token's clone, or this one's.
        drop(removed);
    }
}

impl Waiting {
    fn add(&mut self, wake: Wake) -> u64 {
        let id = self.next;
        self.next += 1;
        self.by_id.insert(id, wake);
        id
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelToken").field(&self.is_cancelled()).finish()
    }
}

/// Ready once its [`CancelToken`] was thrown.
#[derive(Debug)]
pub struct Cancelled {
    token: CancelToken,
    id: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // Cloned before the lock and, if it replaces another, dropped after it: wakers are code of others.
        let wake = Wake::Task(context.waker().clone());
        let replaced;
        {
            let mut waiting = this.token.0.lock();
            if this.token.is_cancelled() {
                return Poll::Ready(());
            }
            replaced = match this.id {
                Some(id) => waiting.by_id.insert(id, wake),
                None => {
                    this.id = Some(waiting.add(wake));
                    None
                }
            };
        }
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.token.0.remove(self.id);
    }
}

/// Takes a callback of [`CancelToken::on_cancel`] back when dropped.
#[derive(Debug)]
pub struct OnCancel {
    token: CancelToken,
    id: Option<u64>,
}

impl Drop for OnCancel {
    fn drop(&mut self) {
        self.token.0.remove(self.id);
    }
}

#[cfg(test)]
mod tests;

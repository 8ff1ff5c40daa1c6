use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// Cancellation token for a run, shared by its clones and cancelled once.
///
/// A token can be queried ([`is_cancelled`](Self::is_cancelled)), awaited ([`cancelled`](Self::cancelled)) and given
/// callbacks ([`on_cancel`](Self::on_cancel)). It needs no particular async runtime.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Set while `waiters` is locked, so that `cancel` misses no new waiter; read without the lock.
    is_set: AtomicBool,
    waiters: Mutex<Waiters>,
    /// Token for forced cancellation.
    forced_token: OnceLock<CancelToken>,
}

#[derive(Default)]
struct Waiters {
    next: u64,
    by_id: BTreeMap<u64, Waiter>,
}

enum Waiter {
    Task(Waker),
    Callback(Box<dyn FnOnce() + Send>),
}

impl CancelToken {
    /// Creates a token that is not cancelled.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the token: wakes all waiting tasks and runs the callbacks on the current thread.
    ///
    /// Later calls have no effect.
    pub fn cancel(&self) {
        let waiters = {
            let mut waiters = self.0.lock();
            self.0.is_set.store(true, Ordering::Release);
            std::mem::take(&mut waiters.by_id)
        };
        // Wake outside the lock, because the woken code may use the token. Wake tasks before running callbacks, so
        // that a callback that panics leaves no task asleep.
        let mut calls = Vec::new();
        for wake in waiters.into_values() {
            match wake {
                Waiter::Task(waker) => waker.wake(),
                Waiter::Callback(call) => calls.push(call),
            }
        }
        for call in calls {
            call();
        }
    }

    /// Returns the token for forced cancellation.
    ///
    /// Cancelling that token after this one ends the grace period of a program that was signalled to terminate.
    #[must_use]
    pub fn forced_token(&self) -> &Self {
        self.0.forced_token.get_or_init(Self::default)
    }

    /// Returns true if the token is cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Returns a future that completes once the token is cancelled.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), id: None }
    }

    /// Registers `call` to run when the token is cancelled; runs it at once if the token is cancelled already.
    ///
    /// The callback runs on the thread that cancels the token, so it must be quick. Dropping the returned guard
    /// unregisters the callback, without waiting for a call that has begun.
    #[must_use = "dropping the answer takes the callback back"]
    pub fn on_cancel(&self, call: impl FnOnce() + Send + 'static) -> CallbackGuard {
        let mut waiters = self.0.lock();
        if self.is_cancelled() {
            drop(waiters);
            call();
            return CallbackGuard { token: self.clone(), id: None };
        }
        let id = waiters.add(Waiter::Callback(Box::new(call)));
        CallbackGuard { token: self.clone(), id: Some(id) }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiters> {
        // No foreign code runs under the lock, so the list is consistent even if the lock is poisoned.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, id: Option<u64>) {
        let removed = id.and_then(|id| self.lock().by_id.remove(&id));
        // Dropped after the lock is released: the callback may own a clone of this token or of another one.
        drop(removed);
    }
}

impl Waiters {
    fn add(&mut self, wake: Waiter) -> u64 {
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

/// Future that completes once its [`CancelToken`] is cancelled.
#[derive(Debug)]
pub struct Cancelled {
    token: CancelToken,
    id: Option<u64>,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // Wakers run foreign code: clone one before taking the lock, and drop a replaced one after releasing it.
        let wake = Waiter::Task(context.waker().clone());
        let replaced;
        {
            let mut waiters = this.token.0.lock();
            if this.token.is_cancelled() {
                return Poll::Ready(());
            }
            replaced = match this.id {
                Some(id) => waiters.by_id.insert(id, wake),
                None => {
                    this.id = Some(waiters.add(wake));
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

/// Guard that unregisters a callback of [`CancelToken::on_cancel`] when dropped.
#[derive(Debug)]
pub struct CallbackGuard {
    token: CancelToken,
    id: Option<u64>,
}

impl Drop for CallbackGuard {
    fn drop(&mut self) {
        self.token.0.remove(self.id);
    }
}

#[cfg(test)]
mod tests;

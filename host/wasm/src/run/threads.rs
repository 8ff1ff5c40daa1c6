//! Threads for guests that do not yield.

use std::future::Future;
use std::io;
use std::panic::resume_unwind;
use std::thread::{Builder, JoinHandle};

use codebox_core::CancelToken;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument as _;

/// Runs a future on a new thread, so that other tasks of the executor continue while it computes.
///
/// The executor's threads for blocking work would be too few: a waiting guest occupies its thread, and its operations on
/// files need threads as well.
///
/// If the returned future is dropped, `abandoned` is cancelled, and the drop blocks until the work has ended. The work
/// must end soon after that, without the executor's timers, because the blocked thread may be the one that drives them.
///
/// # Errors
/// The system's error if the thread cannot be started.
pub(super) async fn on_own_thread<F>(work: F, abandoned: CancelToken) -> io::Result<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let executor = Handle::current();
    let work = work.in_current_span();
    let (ending, ended) = oneshot::channel();
    let thread = Builder::new().name("codebox-guest".into()).spawn(move || {
        let output = executor.block_on(work);
        let _ = ending.send(());
        output
    })?;
    let mut guard = ThreadGuard { thread: Some(thread), abandoned };
    // A panic of the work closes the channel.
    let _ = ended.await;
    match guard.thread.take().map(JoinHandle::join) {
        Some(Ok(output)) => Ok(output),
        Some(Err(panic)) => resume_unwind(panic),
        None => Err(io::Error::other("the thread of the guest was joined before")),
    }
}

struct ThreadGuard<T> {
    thread: Option<JoinHandle<T>>,
    abandoned: CancelToken,
}

impl<T> Drop for ThreadGuard<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.abandoned.cancel();
            // The result, or a panic, has no receiver any more.
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    fn executor() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("an executor")
    }

    #[test]
    fn returns_output_and_passes_panics_on() {
        let executor = executor();
        let output = executor.block_on(on_own_thread(async { std::thread::current().id() }, CancelToken::new()));
        assert_ne!(output.expect("a thread"), std::thread::current().id());
        let panicking = on_own_thread(async { panic!("as intended") }, CancelToken::new());
        let panic = catch_unwind(AssertUnwindSafe(|| executor.block_on(panicking).expect("a thread")));
        assert_eq!(panic.expect_err("it panics").downcast_ref(), Some(&"as intended"));
    }

    #[test]
    fn waits_for_abandoned_work() {
        let executor = executor();
        let has_ended = Arc::new(AtomicBool::new(false));
        for computes in [true, false] {
            has_ended.store(false, Ordering::SeqCst);
            let (abandoned, ended) = (CancelToken::new(), has_ended.clone());
            let token = abandoned.clone();
            let work = async move {
                while computes && !token.is_cancelled() {
                    std::hint::spin_loop();
                }
                token.cancelled().await;
                ended.store(true, Ordering::SeqCst);
            };
            let work = on_own_thread(work, abandoned);
            let timeout = executor.block_on(async { tokio::time::timeout(Duration::from_millis(20), work).await });
            assert!(timeout.is_err() && has_ended.load(Ordering::SeqCst));
        }
    }
}

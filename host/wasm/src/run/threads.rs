//! Threads for guests that do not yield.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, SendError, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};

use codebox_core::CancelToken;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tracing::Instrument as _;

/// Maximum number of idle threads. Starting a thread, with its stack and its first allocations, takes as long as a short
/// job, so threads are used again.
const MAX_IDLE: usize = 16;

type Task = Box<dyn FnOnce() + Send>;

/// The channels of the idle threads.
static IDLE: Mutex<Vec<Sender<Task>>> = Mutex::new(Vec::new());

/// Runs a future on a thread of its own, so that other tasks of the executor continue while it computes.
///
/// The executor's threads for blocking work would be too few: a waiting guest occupies its thread, and its operations on
/// files need threads as well.
///
/// If the returned future is dropped, `abandoned` is cancelled, and the drop blocks until the work has ended. The work
/// must end soon after that, without the executor's timers, because the blocked thread may be the one that drives them.
///
/// # Errors
/// The system's error if a thread cannot be started.
pub(super) async fn on_own_thread<F>(work: F, abandoned: CancelToken) -> io::Result<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let executor = Handle::current();
    let work = work.in_current_span();
    let (results, result) = channel();
    let (ending, ended) = oneshot::channel();
    start(Box::new(move || {
        let output = catch_unwind(AssertUnwindSafe(|| executor.block_on(work)));
        let _ = results.send(output);
        let _ = ending.send(());
    }))?;
    let mut guard = WorkGuard { result: Some(result), abandoned };
    let _ = ended.await;
    match guard.result.take().map(|result| result.recv()) {
        Some(Ok(Ok(output))) => Ok(output),
        Some(Ok(Err(panic))) => resume_unwind(panic),
        Some(Err(_)) | None => Err(io::Error::other("the thread of the guest ended without a result")),
    }
}

struct WorkGuard<T> {
    result: Option<Receiver<thread::Result<T>>>,
    abandoned: CancelToken,
}

impl<T> Drop for WorkGuard<T> {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            self.abandoned.cancel();
            // The result, or a panic, has no receiver any more.
            drop(result.recv());
        }
    }
}

/// Runs a task, which must not panic, on an idle thread or a new one.
fn start(task: Task) -> io::Result<()> {
    let thread = idle().pop();
    let task = match thread {
        Some(thread) => match thread.send(task) {
            Ok(()) => return Ok(()),
            Err(SendError(task)) => task,
        },
        None => task,
    };
    Builder::new().name("codebox-guest".into()).spawn(move || run_tasks(task)).map(drop)
}

/// Runs tasks until there are enough idle threads.
fn run_tasks(first: Task) {
    let (sender, tasks) = channel();
    let mut next = Some(first);
    while let Some(task) = next {
        task();
        let mut idle = idle();
        if idle.len() >= MAX_IDLE {
            return;
        }
        idle.push(sender.clone());
        drop(idle);
        next = tasks.recv().ok();
    }
}

fn idle() -> MutexGuard<'static, Vec<Sender<Task>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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
        let output = executor.block_on(on_own_thread(async { thread::current().id() }, CancelToken::new()));
        assert_ne!(output.expect("a thread"), thread::current().id());
        let panicking = on_own_thread(async { panic!("as intended") }, CancelToken::new());
        let panic = catch_unwind(AssertUnwindSafe(|| executor.block_on(panicking).expect("a thread")));
        assert_eq!(panic.expect_err("it panics").downcast_ref(), Some(&"as intended"));
    }

    #[test]
    fn keeps_few_idle_threads() {
        let executor = executor();
        let all = |count: usize| {
            let works = (0..count).map(|_| on_own_thread(async { thread::current().id() }, CancelToken::new()));
            executor.block_on(futures_util::future::join_all(works))
        };
        assert!(all(4 * MAX_IDLE).into_iter().all(|id| id.is_ok()));
        assert!(idle().len() <= MAX_IDLE);
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

//! Work that blocks, outside of the executor's threads.

use std::io;
use std::thread;

use codebox_core::{ResultKind, RunnerError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::Span;

/// Threads on which blocking work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The pool of the caller's executor.
    Executor,
    /// A thread for each piece of work, which has ended when its result is there: a process that confines itself must
    /// have no other threads.
    Dedicated,
}

/// Work that has been started, with its result.
pub(crate) enum BlockingTask<T> {
    Executor(JoinHandle<T>),
    Dedicated(thread::JoinHandle<()>, oneshot::Receiver<T>),
}

impl Threads {
    /// Starts a piece of work.
    pub(crate) fn start<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<BlockingTask<T>, RunnerError> {
        // Spans of the work belong to the stage that started it.
        let span = Span::current();
        let work = move || span.in_scope(work);
        match self {
            Self::Executor => Ok(BlockingTask::Executor(tokio::task::spawn_blocking(work))),
            Self::Dedicated => {
                let (done, result) = oneshot::channel();
                let work = move || {
                    // Without a receiver the run was dropped.
                    let _ = done.send(work());
                };
                let thread = thread::Builder::new().name("codebox-work".to_owned()).spawn(work);
                Ok(BlockingTask::Dedicated(thread.map_err(|error| no_thread(&error))?, result))
            }
        }
    }

    /// Runs a future to completion on an executor of its own.
    pub(crate) async fn block_on<T: Send + 'static, F: Future<Output = T>>(
        self,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> Result<T, RunnerError> {
        self.start(move || block_on(work()))?.finish().await?
    }
}

impl<T> BlockingTask<T> {
    /// Waits for the result. A panic of the work continues here.
    pub(crate) async fn finish(self) -> Result<T, RunnerError> {
        match self {
            Self::Executor(handle) => match handle.await {
                Ok(result) => Ok(result),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => Err(RunnerError::of(ResultKind::InternalError, &error)),
            },
            Self::Dedicated(thread, result) => {
                let result = result.await;
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
                result.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))
            }
        }
    }
}

/// Runs a future to completion on a new executor of the calling thread, which must not be in async code.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> Result<T, RunnerError> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(executor.map_err(|error| no_executor(&error))?.block_on(work))
}

pub(crate) fn no_executor(error: &io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot start the timer for time limits: {error}"))
}

fn no_thread(error: &io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_threads_return_the_result() {
        for threads in [Threads::Executor, Threads::Dedicated] {
            let result = block_on(async { threads.block_on(|| async { 6 * 7 }).await });
            assert_eq!(result, Ok(Ok(42)), "{threads:?}");
        }
    }

    #[test]
    fn own_threads_have_ended_with_their_work() {
        let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
        let before = threads();
        for _ in 0..20 {
            block_on(async { Threads::Dedicated.start(|| ())?.finish().await })
                .expect("an executor")
                .expect("a thread");
        }
        // Other tests of this process have threads as well, but twenty more would be left over.
        assert!(threads() < before + 20);
    }
}

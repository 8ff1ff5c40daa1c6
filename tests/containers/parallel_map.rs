//! Concurrent work on many items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

/// Calls `work` on each item, at most `at_a_time` concurrently, and returns the results in order. Starts no more items
/// after the first failure.
pub fn parallel_map<T: Sync, R: Send>(
    at_a_time: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (next, last) = (AtomicUsize::new(0), items.len());
    let worker = || -> Result<Vec<(usize, R)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return Ok(done) };
            match work(item) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    next.store(last, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_a_time.min(last)).map(|_| scope.spawn(worker)).collect();
        // All workers are joined before the first failure is returned.
        let ended: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let mut done = Vec::new();
        for worker in ended {
            done.extend(worker.map_err(|_| anyhow!("a thread of the test panicked"))??);
        }
        done.sort_by_key(|(at, _)| *at);
        Ok(done.into_iter().map(|(_, result)| result).collect())
    })
}

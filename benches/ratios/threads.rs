//! Jobs on two threads compared with jobs on one.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use codebox::Workbench;

use super::cases::{self, PRINT};
use super::table::{Row, Threshold};

/// Measures two threads and one alternately; the result is the ratio of the median jobs per second.
pub fn measure(runner: &Workbench, rounds: usize, batch_size: usize) -> Row {
    // The number of jobs is large enough that the start of the threads does not matter.
    let jobs = batch_size * 10;
    let (mut single_thread_rates, mut two_thread_rates) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        single_thread_rates.push(rate(runner, 1, jobs));
        two_thread_rates.push(rate(runner, 2, jobs));
    }
    let (one, two) = (median(&mut single_thread_rates), median(&mut two_thread_rates));
    Row {
        label: "two threads of jobs vs one",
        threshold: Threshold::AtLeast(1.7),
        measured: Some(two / one),
        unit: "x",
        detail: format!("{two:.0} vs {one:.0} jobs/s, {rounds} turns of {jobs} jobs a thread"),
    }
}

/// Measures jobs per second over all threads, from the moment all are ready until the last has finished.
fn rate(runner: &Workbench, threads: usize, jobs: usize) -> f64 {
    let ready = Barrier::new(threads);
    let operation = || {
        let job = PRINT.job();
        // A thread's first job creates its executor.
        black_box(cases::run(runner, &job));
        ready.wait();
        let start = Instant::now();
        for _ in 0..jobs {
            black_box(cases::run(runner, &job));
        }
        start.elapsed()
    };
    let longest = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(operation)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no job panics")).max().unwrap_or(Duration::MAX)
    });
    (threads * jobs) as f64 / longest.as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

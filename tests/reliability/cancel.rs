//! L2: jobs that are cancelled at any moment, wherever they are.

use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{CancelToken, Job, Outcome, Runner};
use codebox_core::ExecIo;
use codebox_testkit::{Kit, soak};

use crate::host::{flat, job, succeed};

/// What the guests are doing when they are cancelled.
const PROGRAMS: &[&str] = &[
    "while True: pass",
    "import time\ntime.sleep(1e9)",
    "while True: open('f', 'w').write('x' * 100000)",
    "while True: print('x' * 1000)",
    "x = []\nwhile True: x.append(bytearray(1 << 16)) if len(x) < 2000 else x.clear()",
    "import os\nwhile True: os.listdir('/work'); os.urandom(1000)",
];

/// The delay and the program of a job; the same in every run, and spread over 0 to 200 ms.
fn plan(number: usize) -> (Duration, Job) {
    let delay = (number * 7919) % 200;
    (Duration::from_millis(delay as u64), job(PROGRAMS[number % PROGRAMS.len()], Duration::from_secs(30)))
}

pub fn by_dropping(runner: &Runner, kit: &Kit) -> Result<()> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let run = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let (delay, job) = plan(number);
            let ended = executor.block_on(async { tokio::time::timeout(delay, runner.run_async(&job)).await });
            if let Ok(report) = ended {
                let outcome = report?.outcome;
                // Nothing else than its own limits can end such a program before the time is over.
                ensure!(matches!(outcome, Outcome::LimitHit(_)), "job {number} ended as {outcome:?}");
            }
        }
        Ok(())
    };
    run(0..12)?;
    flat(kit, || run(0..soak().of(200, 5000)))?;
    succeed(runner, job("print(1)", Duration::from_secs(5))).map(drop)
}

pub fn by_token(runner: &Runner, kit: &Kit) -> Result<()> {
    let run = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            let (delay, job) = plan(number);
            let token = CancelToken::new();
            let mut io = ExecIo { cancel: token.clone(), ..ExecIo::none() };
            let thrower = std::thread::spawn(move || {
                std::thread::sleep(delay);
                token.cancel();
            });
            let report = runner.run_with(&job, &mut io)?;
            ensure!(thrower.join().is_ok(), "the cancelling thread panicked");
            let right = matches!(report.outcome, Outcome::Cancelled | Outcome::LimitHit(_));
            ensure!(right, "job {number} ended as {:?}", report.outcome);
            let late = report.usage.wall.saturating_sub(delay);
            ensure!(late < Duration::from_secs(1), "job {number} went on for {late:?}");
        }
        Ok(())
    };
    // Threads that come and go leave an allocator's arenas behind, but only the first few of them.
    run(0..40)?;
    flat(kit, || run(0..soak().of(100, 5000)))?;
    succeed(runner, job("print(1)", Duration::from_secs(5))).map(drop)
}

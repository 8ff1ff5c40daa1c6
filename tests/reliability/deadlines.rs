//! L7: every guest ends at its deadline, many at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use codebox::{ByteSize, Job, Outcome, Workbench};
use codebox_core::LimitKind;
use codebox_testkit::{Guest, Kit, soak};

use crate::support::{check_no_leaks, hostile, job, with_memory_limit};

const WALL_LIMIT: Duration = Duration::from_secs(1);
const CONCURRENCY: usize = 16;

/// Program that lists a large directory again and again.
const LISTING: [&str; 2] = [
    "import os\nfor n in range(3000): open(str(n), 'w')\nwhile True: os.listdir('.')",
    "const fs = require('fs')
for (let n = 0; n < 3000; n++) fs.writeFileSync(`${n}`, '')
for (;;) fs.readdirSync('.')",
];

fn programs(guest: Guest) -> Result<Vec<Job>> {
    let jobs = vec![
        hostile(guest, "r1_spin", &[], WALL_LIMIT)?,
        hostile(guest, "h1_sleep", &["sleep"], WALL_LIMIT)?,
        hostile(guest, "h1_poll", &["poll"], WALL_LIMIT)?,
        hostile(guest, "r6_recursion", &["function"], WALL_LIMIT)?,
        hostile(guest, "r8_flood_lines", &[], WALL_LIMIT)?,
        hostile(guest, "r2_regex", &[], WALL_LIMIT)?,
        job(guest, guest.choose(LISTING[0], LISTING[1]), WALL_LIMIT),
    ];
    Ok(jobs.into_iter().map(|job| with_memory_limit(job, ByteSize::mib(256))).collect())
}

pub fn deadlines_hold(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    let programs = programs(guest)?;
    // As many regions as run concurrently are kept afterwards; that number is the upper bound.
    round(runner, &programs, 2 * CONCURRENCY)?;
    let mut delays = Vec::new();
    check_no_leaks(kit, || {
        delays = round(runner, &programs, programs.len() * soak().of(4, 500))?;
        Ok(())
    })?;
    delays.sort();
    let p99 = delays[delays.len() * 99 / 100];
    // Sixteen busy guests share two processors, so a guest's thread may have to wait to be scheduled.
    ensure!(p99 <= Duration::from_millis(750), "99 of 100 ended within {p99:?} of their deadline");
    Ok(())
}

/// Runs `total` jobs, sixteen at a time, and returns the delay of each after its deadline.
fn round(runner: &Workbench, programs: &[Job], total: usize) -> Result<Vec<Duration>> {
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<Duration>> {
        let mut delays = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return Ok(delays);
            }
            let start = Instant::now();
            let ended = runner.run(programs[number % programs.len()].clone());
            delays.push(start.elapsed().saturating_sub(WALL_LIMIT));
            if let Some(unexpected_end) = unexpected_end(ended.map(|report| report.outcome)) {
                bail!("program {}: {unexpected_end}", number % programs.len());
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONCURRENCY).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow::anyhow!("a guest's thread panicked"))??);
        }
        Ok(all)
    })
}

fn unexpected_end(ended: Result<Outcome, codebox::RunnerError>) -> Option<String> {
    match ended {
        Err(error) => Some(error.to_string()),
        Ok(
            Outcome::Exited(_)
            | Outcome::Trapped(_)
            | Outcome::LimitHit(LimitKind::Wall | LimitKind::Output | LimitKind::Memory),
        ) => None,
        Ok(outcome) => Some(format!("{outcome:?}")),
    }
}

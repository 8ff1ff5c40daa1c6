//! L7: whatever a guest does, it ends at its deadline, many at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use codebox::{ByteSize, Job, Outcome, Runner};
use codebox_core::LimitKind;
use codebox_testkit::{Kit, soak};

use crate::host::{flat, hostile, job, with_memory};

const WALL: Duration = Duration::from_secs(1);
const AT_A_TIME: usize = 16;

fn programs() -> Result<Vec<Job>> {
    let jobs = vec![
        hostile("r1_spin", &[], WALL)?,
        hostile("h1_sleep", &["sleep"], WALL)?,
        hostile("h1_poll", &["poll"], WALL)?,
        hostile("r6_recursion", &["function"], WALL)?,
        hostile("r8_flood_lines", &[], WALL)?,
        hostile("r2_regex", &[], WALL)?,
        job("import os\nfor n in range(3000): open(str(n), 'w')\nwhile True: os.listdir('.')", WALL),
    ];
    Ok(jobs.into_iter().map(|job| with_memory(job, ByteSize::mib(256))).collect())
}

pub fn hold(runner: &Runner, kit: &Kit) -> Result<()> {
    let programs = programs()?;
    let total = programs.len() * soak().of(8, 500);
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let latenesses = Mutex::new(Vec::new());
    flat(kit, || {
        std::thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= total {
                            return;
                        }
                        let began = Instant::now();
                        let ended = runner.run(programs[number % programs.len()].clone());
                        let late = began.elapsed().saturating_sub(WALL);
                        latenesses.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(late);
                        if let Some(fault) = fault(ended.map(|report| report.outcome)) {
                            let mut failures = failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                            failures.push(format!("program {}: {fault}", number % programs.len()));
                        }
                    }
                });
            }
        });
        Ok(())
    })?;
    let failures = failures.into_inner()?;
    ensure!(failures.is_empty(), "{failures:?}");
    let mut latenesses = latenesses.into_inner()?;
    latenesses.sort();
    let p99 = latenesses[latenesses.len() * 99 / 100];
    // Sixteen busy guests share two processors, so a guest's own thread may have to wait for its turn.
    ensure!(p99 <= Duration::from_millis(750), "99 of 100 ended within {p99:?} of their deadline");
    Ok(())
}

fn fault(ended: Result<Outcome, codebox::RunnerError>) -> Option<String> {
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

//! L9: guests that request all memory get only what their limit allows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, Outcome, Workbench};
use codebox_core::LimitKind;
use codebox_testkit::{Guest, Kit, ResourceSnapshot, soak};

use crate::support::{check_no_leaks, job, printing, run_successfully, with_memory_limit};

/// Python program that allocates memory in steps and writes to every page of it.
const PYTHON: &str = "held = []
for _ in range(4096):
    held.append(bytearray(b'x' * (1 << 20)))";

/// JavaScript program that allocates memory in steps and writes to every page of it.
const JAVASCRIPT: &str = "const held = [];
for (let n = 0; n < 4096; n++) held.push(new Uint8Array(1 << 20).fill(120));";

const MEMORY_LIMIT: ByteSize = ByteSize::mib(256);

pub fn exhausts_memory(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    let guests = soak().of(16, 64);
    let before = ResourceSnapshot::take()?.resident;
    // Regions of the first guests are kept for the next ones and are the upper bound.
    run_concurrently(runner, guest, guests)?;
    let mut peak = 0;
    check_no_leaks(kit, || {
        peak = run_concurrently(runner, guest, guests)?;
        Ok(())
    })?;
    let max_resident = before + guests as u64 * (MEMORY_LIMIT.get() + (40 << 20));
    ensure!(peak <= max_resident, "{} MiB were resident, more than {}", peak >> 20, max_resident >> 20);
    run_successfully(runner, printing(guest, 1)).map(drop)
}

/// Runs this many guests that exhaust their memory concurrently and returns the peak resident memory.
fn run_concurrently(runner: &Workbench, guest: Guest, guests: usize) -> Result<u64> {
    let run_exhausting_job = || {
        runner
            .run(with_memory_limit(job(guest, guest.choose(PYTHON, JAVASCRIPT), Duration::from_secs(60)), MEMORY_LIMIT))
    };
    let (peak, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let reports = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let now = ResourceSnapshot::take().map_or(0, |inventory| inventory.resident);
                peak.fetch_max(now, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let guests: Vec<_> = (0..guests).map(|_| scope.spawn(run_exhausting_job)).collect();
        let reports: Vec<_> = guests.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        reports
    });
    for report in reports {
        let report = report.map_err(|_| anyhow::anyhow!("a guest's thread panicked"))??;
        ensure!(report.outcome == Outcome::LimitHit(LimitKind::Memory), "outcome is {:?}", report.outcome);
        ensure!(report.usage.peak_memory <= Some(MEMORY_LIMIT.get()), "peak memory is {:?}", report.usage.peak_memory);
    }
    Ok(peak.into_inner())
}

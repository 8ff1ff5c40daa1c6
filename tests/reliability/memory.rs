//! L9: guests that request all memory get only what their limit allows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, Outcome, Workbench};
use codebox_core::LimitKind;
use codebox_testkit::{Guest, Inventory, Kit, soak};

use crate::host::{flat, job, printing, succeed, with_memory};

/// Python program that allocates memory in steps and writes to every page of it.
const PYTHON: &str = "held = []
for _ in range(4096):
    held.append(bytearray(b'x' * (1 << 20)))";

/// JavaScript program that allocates memory in steps and writes to every page of it.
const JAVASCRIPT: &str = "const held = [];
for (let n = 0; n < 4096; n++) held.push(new Uint8Array(1 << 20).fill(120));";

const CAP: ByteSize = ByteSize::mib(256);

pub fn greedy(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    let guests = soak().of(16, 64);
    let before = Inventory::take()?.resident;
    // Regions of the first guests are kept for the next ones and are the upper bound.
    together(runner, guest, guests)?;
    let mut peak = 0;
    flat(kit, || {
        peak = together(runner, guest, guests)?;
        Ok(())
    })?;
    let most = before + guests as u64 * (CAP.get() + (40 << 20));
    ensure!(peak <= most, "{} MiB were resident, more than {}", peak >> 20, most >> 20);
    succeed(runner, printing(guest, 1)).map(drop)
}

/// Runs this many greedy guests concurrently and returns the peak resident memory.
fn together(runner: &Workbench, guest: Guest, guests: usize) -> Result<u64> {
    let greedy = || runner.run(with_memory(job(guest, guest.choose(PYTHON, JAVASCRIPT), Duration::from_secs(60)), CAP));
    let (peak, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let reports = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let now = Inventory::take().map_or(0, |inventory| inventory.resident);
                peak.fetch_max(now, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let guests: Vec<_> = (0..guests).map(|_| scope.spawn(greedy)).collect();
        let reports: Vec<_> = guests.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        reports
    });
    for report in reports {
        let report = report.map_err(|_| anyhow::anyhow!("a guest's thread panicked"))??;
        ensure!(report.outcome == Outcome::LimitHit(LimitKind::Memory), "outcome is {:?}", report.outcome);
        ensure!(report.usage.peak_memory <= Some(CAP.get()), "it had {:?}", report.usage.peak_memory);
    }
    Ok(peak.into_inner())
}

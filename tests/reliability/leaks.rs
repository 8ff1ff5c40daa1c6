//! L1: consecutive jobs, without growth of resources.

use anyhow::{Result, ensure};
use codebox::Workbench;
use codebox_testkit::{Guest, Kit, ResourceSnapshot, soak};

use crate::support::{check_no_leaks, printing, run_successfully};

/// Number of jobs before the first count.
const WARM_UP: usize = 200;

pub fn consecutive(runner: &Workbench, kit: &Kit, guest: Guest) -> Result<()> {
    one_after_another(runner, kit, soak().of(500, 5000), |_| guest)
}

/// Alternates the languages, each with separate regions.
pub fn alternating(runner: &Workbench, kit: &Kit) -> Result<()> {
    one_after_another(runner, kit, soak().of(500, 10_000), |number| Guest::ALL[number % Guest::ALL.len()])
}

fn one_after_another(runner: &Workbench, kit: &Kit, jobs: usize, guest: impl Fn(usize) -> Guest) -> Result<()> {
    let one = |number: usize| {
        let report = run_successfully(runner, printing(guest(number), number))?;
        ensure!(
            report.stdout.bytes().as_ref() == format!("{number}\n").as_bytes(),
            "job {number} printed different output"
        );
        Ok(())
    };
    for number in 0..WARM_UP {
        one(number)?;
    }
    let mut resident = Vec::new();
    check_no_leaks(kit, || {
        for number in 0..jobs {
            one(number)?;
            if number >= jobs / 5 && number % 10 == 0 {
                resident.push(ResourceSnapshot::take()?.resident as f64);
            }
        }
        Ok(())
    })?;
    let per_thousand = ResourceSnapshot::slope(&resident) * 100.0 / f64::from(1 << 20);
    ensure!(per_thousand <= 1.0, "resident memory grows by {per_thousand:.2} MiB in 1,000 jobs");
    Ok(())
}

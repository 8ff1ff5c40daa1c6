//! L8: a flood of output does not increase memory use.

use std::time::Duration;

use anyhow::{Result, ensure};
use codebox::{ByteSize, Limit, Outcome, Workbench};
use codebox_core::LimitKind;
use codebox_testkit::{Guest, Kit, ResourceSnapshot};

use crate::support::{hostile, printing, run_successfully};

pub fn is_bounded(runner: &Workbench, _kit: &Kit, guest: Guest) -> Result<()> {
    run_successfully(runner, printing(guest, 1))?;
    let before = ResourceSnapshot::take()?.resident;
    for _ in 0..10 {
        let mut flood = hostile(guest, "r8_flood_lines", &[], Duration::from_secs(20))?;
        flood.limits.output = Limit::At(ByteSize::mib(1));
        let report = runner.run(flood)?;
        ensure!(report.outcome == Outcome::LimitHit(LimitKind::Output), "outcome is {:?}", report.outcome);
        ensure!(report.stdout.bytes().len() <= 1 << 20, "{} bytes were kept", report.stdout.bytes().len());
        ensure!(report.stdout.dropped > 0, "nothing was dropped");
        ensure!(report.usage.wall < Duration::from_secs(5), "continued for {:?}", report.usage.wall);
    }
    let grown = ResourceSnapshot::take()?.resident.saturating_sub(before);
    ensure!(grown <= 16 << 20, "{} MiB more are resident", grown >> 20);
    Ok(())
}

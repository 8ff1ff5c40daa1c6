//! C2: memory taken by the job, by its child process, and by files in memory.

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::ground::{Ground, program};
use crate::row::{Row, row};

/// Memory limit of each job in bytes.
const MOST: u64 = 96 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        row("C2::itself", itself),
        row("C2::child_alone", child_alone),
        row("C2::shared_memory", |ground| full(ground, "/dev/shm")),
        row("C2::temporary_files", |ground| full(ground, "/tmp")),
        row("C2::shared_memory_beyond_memory", beyond),
    ]
}

fn taking(ground: &Ground, what: &str, kind: &str, status: i64) -> Result<Report> {
    let limits = ["--memory", "96M", "--max-disk", "64M", "--timeout", "60s"];
    let report = ground.ends(kind, status, ground.run().args(limits).arg(program("c2_memory.py")).arg(what))?;
    let peak = report.at("/usage/peak_memory_bytes").as_u64();
    ensure!(peak.is_none_or(|peak| peak <= MOST), "it had {peak:?} bytes");
    Ok(report)
}

/// Both engines' own OOM flag is unreliable: one does not set it, the other sets it too often.
fn itself(ground: &Ground) -> Result<()> {
    taking(ground, "self", "memory_limit", 137).map(drop)
}

/// A job that loses a child to the memory limit and continues ends successfully.
fn child_alone(ground: &Ground) -> Result<()> {
    let report = taking(ground, "child", "ok", 0)?;
    ensure!(report.stdout() == "the child ended by signal 9\n", "it printed {:?}", report.stdout());
    Ok(())
}

/// Full file systems cause an error in the job, which the job may survive.
fn full(ground: &Ground, place: &str) -> Result<()> {
    let report = taking(ground, place, "ok", 0)?;
    ensure!(report.stdout().starts_with("full: "), "it printed {:?}", report.stdout());
    Ok(())
}

/// Shared memory counts as memory and never exceeds the limit.
fn beyond(ground: &Ground) -> Result<()> {
    let job = ground.run().args(["--memory", "32M", "--timeout", "60s"]).arg(program("c2_memory.py")).arg("/dev/shm");
    let report = ground.judge(&job.run()?)?;
    ensure!(matches!(report.kind(), "ok" | "memory_limit"), "it ended as {}", report.kind());
    let peak = report.at("/usage/peak_memory_bytes").as_u64();
    ensure!(peak.is_none_or(|peak| peak <= 32 << 20), "it had {peak:?} bytes");
    Ok(())
}

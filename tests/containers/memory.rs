//! C2: memory taken by the job, by its child process, and by files in memory.

use anyhow::{Result, ensure};
use codebox_testkit::Report;

use crate::row::{Row, row};
use crate::test_env::{TestEnvironment, program};

/// Memory limit of each job in bytes.
const MAX_MEMORY: u64 = 96 << 20;

pub fn rows() -> Vec<Row> {
    vec![
        row("C2::job_itself", job_itself),
        row("C2::child_alone", child_alone),
        row("C2::shared_memory", |test_env| full_file_system(test_env, "/dev/shm")),
        row("C2::temporary_files", |test_env| full_file_system(test_env, "/tmp")),
        row("C2::shared_memory_beyond_limit", shared_memory_beyond_limit),
    ]
}

fn run_allocation(test_env: &TestEnvironment, what: &str, kind: &str, status: i64) -> Result<Report> {
    let limits = ["--memory", "96M", "--max-disk", "64M", "--timeout", "60s"];
    let report =
        test_env.run_expecting(kind, status, test_env.run().args(limits).arg(program("c2_memory.py")).arg(what))?;
    let peak = report.at("/usage/peak_memory_bytes").as_u64();
    ensure!(peak.is_none_or(|peak| peak <= MAX_MEMORY), "peak memory is {peak:?} bytes");
    Ok(report)
}

/// Both engines' own OOM flag is unreliable: one does not set it, the other sets it too often.
fn job_itself(test_env: &TestEnvironment) -> Result<()> {
    run_allocation(test_env, "self", "memory_limit", 137).map(drop)
}

/// A job that loses a child to the memory limit and continues ends successfully.
fn child_alone(test_env: &TestEnvironment) -> Result<()> {
    let report = run_allocation(test_env, "child", "ok", 0)?;
    ensure!(report.stdout() == "the child ended by signal 9\n", "stdout is {:?}", report.stdout());
    Ok(())
}

/// Full file systems cause an error in the job, which the job may survive.
fn full_file_system(test_env: &TestEnvironment, directory: &str) -> Result<()> {
    let report = run_allocation(test_env, directory, "ok", 0)?;
    ensure!(report.stdout().starts_with("full: "), "stdout is {:?}", report.stdout());
    Ok(())
}

/// Shared memory counts as memory and never exceeds the limit.
fn shared_memory_beyond_limit(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().args(["--memory", "32M", "--timeout", "60s"]).arg(program("c2_memory.py")).arg("/dev/shm");
    let report = test_env.check_run(&job.run()?)?;
    ensure!(matches!(report.kind(), "ok" | "memory_limit"), "unexpected result: {}", report.kind());
    let peak = report.at("/usage/peak_memory_bytes").as_u64();
    ensure!(peak.is_none_or(|peak| peak <= 32 << 20), "peak memory is {peak:?} bytes");
    Ok(())
}

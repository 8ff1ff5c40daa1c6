//! C1 and C12: processes, as many and as stubborn as a job can create.

use anyhow::{Result, ensure};

use crate::row::{Row, row};
use crate::test_env::{TestEnvironment, program};

pub fn rows() -> Vec<Row> {
    vec![
        row("C1::fork_bomb", fork_bomb),
        row("C1::too_many_processes", |test_env| check_process_limit(test_env, "processes")),
        row("C1::too_many_threads", |test_env| check_process_limit(test_env, "threads")),
        row("C1::zombies", |test_env| check_process_limit(test_env, "zombies")),
        row("C1::orphans", orphans),
        row("C12::resists_signals", resists_signals),
        row("C12::left_running", left_running),
    ]
}

/// A fork bomb runs until its deadline, and the machine never has more of its processes than the limit.
fn fork_bomb(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().args(["--timeout", "3s", "--max-processes", "32"]).arg(program("c1_bomb.py"));
    test_env.run_expecting("timeout_wall", 124, job).map(drop)
}

/// A job that the process limit kills is reported as having reached the limit.
fn check_process_limit(test_env: &TestEnvironment, what: &str) -> Result<()> {
    let job = test_env.run().args(["--timeout", "60s", "--max-processes", "16"]).arg(program("c1_refused.py"));
    test_env.run_expecting("process_limit", 122, job.arg(what)).map(drop)
}

/// Dead processes that other processes leave behind do not accumulate.
fn orphans(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().args(["--max-processes", "16"]).arg(program("c1_orphans.py"));
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout() == "done\n", "stdout is {:?}", report.stdout());
    Ok(())
}

/// The deadline ends processes that ignore every signal, left their session and parent, and hold the job's output open.
fn resists_signals(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().args(["--timeout", "2s"]).arg(program("c12_stubborn.py")).arg("stay");
    let report = test_env.run_expecting("timeout_wall", 124, job)?;
    ensure!(report.stdout().contains("three are up"), "stdout is {:?}", report.stdout());
    Ok(())
}

/// The end of a job's first process ends the processes that it started.
fn left_running(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run().args(["--timeout", "60s"]).arg(program("c12_stubborn.py")).arg("leave");
    let report = test_env.run_expecting("ok", 0, job)?;
    ensure!(report.stdout().contains("three are up"), "stdout is {:?}", report.stdout());
    let duration_ms = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX);
    ensure!(duration_ms < 60_000.0, "ended at the timeout and not with its first process");
    Ok(())
}

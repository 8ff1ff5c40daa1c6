//! C1 and C12: processes, as many and as stubborn as a job can create.

use anyhow::{Result, ensure};

use crate::ground::{Ground, program};
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![
        row("C1::bomb", bomb),
        row("C1::too_many_processes", |ground| refused(ground, "processes")),
        row("C1::too_many_threads", |ground| refused(ground, "threads")),
        row("C1::zombies", |ground| refused(ground, "zombies")),
        row("C1::orphans", orphans),
        row("C12::stubborn", stubborn),
        row("C12::left_running", left_running),
    ]
}

/// A fork bomb runs until its deadline, and the machine never has more of its processes than the limit.
fn bomb(ground: &Ground) -> Result<()> {
    let job = ground.run().args(["--timeout", "3s", "--max-processes", "32"]).arg(program("c1_bomb.py"));
    ground.ends("timeout_wall", 124, job).map(drop)
}

/// A job that the process limit kills is reported as having reached the limit.
fn refused(ground: &Ground, what: &str) -> Result<()> {
    let job = ground.run().args(["--timeout", "60s", "--max-processes", "16"]).arg(program("c1_refused.py"));
    ground.ends("process_limit", 122, job.arg(what)).map(drop)
}

/// Dead processes that other processes leave behind do not accumulate.
fn orphans(ground: &Ground) -> Result<()> {
    let job = ground.run().args(["--max-processes", "16"]).arg(program("c1_orphans.py"));
    let report = ground.ends("ok", 0, job)?;
    ensure!(report.stdout() == "done\n", "it printed {:?}", report.stdout());
    Ok(())
}

/// The deadline ends processes that ignore every signal, left their session and parent, and hold the job's output open.
fn stubborn(ground: &Ground) -> Result<()> {
    let job = ground.run().args(["--timeout", "2s"]).arg(program("c12_stubborn.py")).arg("stay");
    let report = ground.ends("timeout_wall", 124, job)?;
    ensure!(report.stdout().contains("three are up"), "it printed {:?}", report.stdout());
    Ok(())
}

/// The end of a job's first process ends the processes that it started.
fn left_running(ground: &Ground) -> Result<()> {
    let job = ground.run().args(["--timeout", "60s"]).arg(program("c12_stubborn.py")).arg("leave");
    let report = ground.ends("ok", 0, job)?;
    ensure!(report.stdout().contains("three are up"), "it printed {:?}", report.stdout());
    let took = report.at("/duration_ms").as_f64().unwrap_or(f64::MAX);
    ensure!(took < 60_000.0, "it ended with its time and not with its first process");
    Ok(())
}

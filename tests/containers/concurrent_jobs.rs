//! L6: many concurrent containers. Each job ends, and jobs with a deadline end at it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Soak, soak};

use crate::parallel_map::parallel_map;
use crate::row::{Row, row};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![row("L6::concurrent_jobs", concurrent_jobs)]
}

/// Deadline that only a hanging run reaches: this many containers need time to start.
const RUN_DEADLINE: Duration = Duration::from_secs(600);

const WALL_LIMIT: Duration = Duration::from_secs(3);

/// Lock that keeps the engines' crowds apart, because one crowd is as large as the machine can bear.
static LOAD_LOCK: Mutex<()> = Mutex::new(());

fn concurrent_jobs(test_env: &TestEnvironment) -> Result<()> {
    let _guard = LOAD_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    // Fills the cache of the engine's description, which is queried once an hour and costs the engine CPU time.
    test_env.run_expecting("ok", 0, test_env.run().args(["--", "/bin/true"]))?;
    let numbers: Vec<usize> = (0..soak().of(30, 100)).collect();
    let delays = parallel_map(numbers.len(), &numbers, |number| {
        run_job(test_env, *number).with_context(|| format!("job {number}"))
    })?;
    let mut delays: Vec<Duration> = delays.into_iter().flatten().collect();
    delays.sort();
    if let (Soak::Long, Some(max)) = (soak(), delays.last()) {
        let (median, p99) = (delays[delays.len() / 2], delays[(delays.len() - 1) * 99 / 100]);
        println!(
            "L6 {}: {} jobs at once; deadlines were late by {median:?} (median), {p99:?} (99 of 100), {max:?} (most)",
            test_env.engine.name(),
            numbers.len(),
        );
    }
    Ok(())
}

/// Runs one job. Jobs with an odd number run forever and have a deadline; the result is the delay after the deadline.
fn run_job(test_env: &TestEnvironment, number: usize) -> Result<Option<Duration>> {
    let job = test_env.run().deadline(RUN_DEADLINE);
    if number.is_multiple_of(2) {
        let wait = format!("import time\nprint({number}, flush=True)\ntime.sleep(0.5)\nprint('end')");
        let report =
            test_env.run_expecting("ok", 0, job.args(["--timeout", "300s", "--lang", "python", "-c", &wait]))?;
        ensure!(report.stdout() == format!("{number}\nend\n"), "stdout is {:?}", report.stdout());
        return Ok(None);
    }
    let timeout = format!("{}s", WALL_LIMIT.as_secs());
    // Output before the deadline is kept; a slow start may leave none.
    let forever = format!("echo {number}; exec sleep 600");
    let report = test_env.run_expecting(
        "timeout_wall",
        124,
        job.args(["--timeout", &timeout, "--", "/bin/sh", "-c", &forever]),
    )?;
    ensure!(format!("{number}\n").starts_with(report.stdout()), "stdout is {:?}", report.stdout());
    let wall = report.at("/duration_ms").as_f64().context("no duration is reported")?;
    Ok(Some(Duration::from_secs_f64(wall / 1000.0).saturating_sub(WALL_LIMIT)))
}

//! L6: many concurrent containers. Each job ends, and jobs with a deadline end at it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Soak, soak};

use crate::ground::Ground;
use crate::many::many;
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![row("L6::many_at_once", many_at_once)]
}

/// Deadline that only a hanging run reaches: this many containers need time to start.
const PATIENCE: Duration = Duration::from_secs(600);

const WALL: Duration = Duration::from_secs(3);

/// Lock that keeps the engines' crowds apart, because one crowd is as large as the machine can bear.
static CROWD: Mutex<()> = Mutex::new(());

fn many_at_once(ground: &Ground) -> Result<()> {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    // Fills the cache of the engine's description, which is queried once an hour and costs the engine CPU time.
    ground.ends("ok", 0, ground.run().args(["--", "/bin/true"]))?;
    let numbers: Vec<usize> = (0..soak().of(30, 100)).collect();
    let latenesses =
        many(numbers.len(), &numbers, |number| one(ground, *number).with_context(|| format!("job {number}")))?;
    let mut latenesses: Vec<Duration> = latenesses.into_iter().flatten().collect();
    latenesses.sort();
    if let (Soak::Long, Some(most)) = (soak(), latenesses.last()) {
        let (middle, p99) = (latenesses[latenesses.len() / 2], latenesses[(latenesses.len() - 1) * 99 / 100]);
        println!(
            "L6 {}: {} jobs at once; deadlines were late by {middle:?} (median), {p99:?} (99 of 100), {most:?} (most)",
            ground.engine.name(),
            numbers.len(),
        );
    }
    Ok(())
}

/// Runs one job. Jobs with an odd number run forever and have a deadline; the result is the delay after the deadline.
fn one(ground: &Ground, number: usize) -> Result<Option<Duration>> {
    let job = ground.run().deadline(PATIENCE);
    if number.is_multiple_of(2) {
        let wait = format!("import time\nprint({number}, flush=True)\ntime.sleep(0.5)\nprint('end')");
        let report = ground.ends("ok", 0, job.args(["--timeout", "300s", "--lang", "python", "-c", &wait]))?;
        ensure!(report.stdout() == format!("{number}\nend\n"), "it printed {:?}", report.stdout());
        return Ok(None);
    }
    let timeout = format!("{}s", WALL.as_secs());
    // Output before the deadline is kept; a slow start may leave none.
    let forever = format!("echo {number}; exec sleep 600");
    let report =
        ground.ends("timeout_wall", 124, job.args(["--timeout", &timeout, "--", "/bin/sh", "-c", &forever]))?;
    ensure!(format!("{number}\n").starts_with(report.stdout()), "it printed {:?}", report.stdout());
    let wall = report.at("/duration_ms").as_f64().context("no duration is told")?;
    Ok(Some(Duration::from_secs_f64(wall / 1000.0).saturating_sub(WALL)))
}

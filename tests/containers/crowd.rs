//! L6: many containers at one time. Each job ends, and those that have a deadline end at it.

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

/// Only one that hangs meets it: so many containers take their time to come up.
const PATIENCE: Duration = Duration::from_secs(600);

const WALL: Duration = Duration::from_secs(3);

/// One engine's crowd at a time: it is as many as the machine is to bear.
static CROWD: Mutex<()> = Mutex::new(());

fn many_at_once(ground: &Ground) -> Result<()> {
    let _alone = CROWD.lock().unwrap_or_else(PoisonError::into_inner);
    // An engine takes a moment of the processor's to say what it is, which is asked once an hour.
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

/// Every other job has a deadline and would go on for ever; how late that one was.
fn one(ground: &Ground, number: usize) -> Result<Option<Duration>> {
    let job = ground.run().deadline(PATIENCE);
    if number.is_multiple_of(2) {
        let wait = format!("import time\nprint({number}, flush=True)\ntime.sleep(0.5)\nprint('end')");
        let report = ground.ends("ok", 0, job.args(["--timeout", "300s", "--lang", "python", "-c", &wait]))?;
        ensure!(report.stdout() == format!("{number}\nend\n"), "it printed {:?}", report.stdout());
        return Ok(None);
    }
    let timeout = format!("{}s", WALL.as_secs());
    // Its output so far is kept, if it came so far before its time was over.
    let forever = format!("echo {number}; exec sleep 600");
    let report =
        ground.ends("timeout_wall", 124, job.args(["--timeout", &timeout, "--", "/bin/sh", "-c", &forever]))?;
    ensure!(format!("{number}\n").starts_with(report.stdout()), "it printed {:?}", report.stdout());
    let wall = report.at("/duration_ms").as_f64().context("no duration is told")?;
    Ok(Some(Duration::from_secs_f64(wall / 1000.0).saturating_sub(WALL)))
}

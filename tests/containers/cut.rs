//! O6: a container stream that breaks off at any byte, and jobs that end almost immediately.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{BASE_IMAGE, EngineCall, Fault, Spot, soak};

use crate::ground::Ground;
use crate::many::many;
use crate::proxied::{proxy, reconciled, through};
use crate::row::{Row, row};

pub fn rows() -> Vec<Row> {
    vec![row("O6::cut_at_each_byte", cut_at_each_byte), row("O6::short_jobs", short_jobs)]
}

const PATIENCE: Duration = Duration::from_secs(60);

/// A cut stream is never a success; output before the cut is kept, and nothing is added to it.
fn cut_at_each_byte(ground: &Ground) -> Result<()> {
    let spots: Vec<usize> = (0..64).step_by(soak().of(8, 1)).chain((64..600).step_by(soak().of(67, 11))).collect();
    many(3, &spots, |at| cut_at(ground, *at).with_context(|| format!("cut before byte {at}")))?;
    reconciled(ground)
}

fn cut_at(ground: &Ground, at: usize) -> Result<()> {
    let proxy = proxy(ground.engine)?;
    proxy.fail(&[(EngineCall::Attach, Fault::Cut(Spot::Body(at)))]);
    let whole: String = (0..100).map(|n| format!("line {n}\n")).collect();
    let program = "for n in range(100): print('line', n, flush=True)";
    let places = ["run", "--isolation", "container", "--engine", ground.engine.name(), "--image", BASE_IMAGE];
    let streamed = through(&proxy, ground.engine, ground.codebox().args(places)).deadline(PATIENCE);
    let ran = streamed.args(["--lang", "python", "-c", program]).run()?;
    ensure!(!ran.hung && ran.code == Some(125), "hung: {}, code {:?}: {}", ran.hung, ran.code, ran.stderr_text());
    let (out, said) = (ran.stdout_text(), ran.stderr_text());
    ensure!(whole.starts_with(&out), "it printed {out:?}");
    ensure!(said.contains("lost connection to "), "it said {said:?}");
    let job = through(&proxy, ground.engine, ground.run()).deadline(PATIENCE);
    let ran = job.args(["--lang", "python", "-c", program]).run()?;
    let report = ran.report()?;
    ensure!(report.kind() == "engine_lost", "it ended as {:.600}", report.json().to_string());
    ensure!(proxy.struck() == 2, "{} streams were cut", proxy.struck());
    Ok(())
}

/// Output of a job that ends immediately is complete.
fn short_jobs(ground: &Ground) -> Result<()> {
    let numbers: Vec<usize> = (0..soak().of(20, 1000)).collect();
    many(2, &numbers, |number| {
        let (script, status) = (format!("echo out {number}; echo err {number} >&2; exit {}", number % 7), number % 7);
        let kind = if status == 0 { "ok" } else { "guest_error" };
        let report = ground.ends(kind, i64::try_from(status)?, ground.run().args(["--", "/bin/sh", "-c", &script]))?;
        let printed = (report.stdout(), report.stderr());
        let expected = (format!("out {number}\n"), format!("err {number}\n"));
        ensure!(printed == (expected.0.as_str(), expected.1.as_str()), "it printed {printed:?}, not {expected:?}");
        Ok(())
    })?;
    Ok(())
}

//! O10: termination signals to codebox. codebox ends its job, reports the outcome and leaves nothing behind.

use std::io::Read as _;
use std::process::{Command, ExitStatus};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Report;

use crate::ground::Ground;
use crate::row::{Row, row};
use crate::watched::{Started, WAITING};

pub fn rows() -> Vec<Row> {
    vec![
        row("O10::terminated", |ground| ends_its_job(ground, &["-TERM"])),
        row("O10::hung_up", |ground| ends_its_job(ground, &["-HUP"])),
        row("O10::insisted", |ground| ends_its_job(ground, &["-INT", "-INT"])),
        row("O10::insisted_otherwise", |ground| ends_its_job(ground, &["-TERM", "-INT"])),
        row("O10::hang_up_ignored", hang_up_ignored),
    ]
}

/// Returns a job of ten minutes that ignores `SIGINT` and has printed a line.
fn stubborn() -> String {
    let heard = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)";
    format!("{heard}\nprint('partial', flush=True)\n{WAITING}")
}

fn signal(process: u32, signal: &str) -> Result<()> {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(sent.success(), "{signal} cannot be sent");
    Ok(())
}

/// Waits for codebox and reads its report.
fn ended(mut started: Started) -> Result<(ExitStatus, Report)> {
    let mut out = String::new();
    started.child.stdout.take().context("its output is not kept")?.read_to_string(&mut out)?;
    let status = started.child.wait()?;
    Ok((status, Report::new(serde_json::from_str(&out).with_context(|| format!("it said {out:?}"))?)))
}

fn ends_its_job(ground: &Ground, signals: &[&str]) -> Result<()> {
    let code = stubborn();
    let job = ground.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", &code]);
    let started = Started::new(ground, &job)?;
    for name in signals {
        signal(started.child.id(), name)?;
    }
    let (status, report) = ended(started)?;
    ensure!(status.code() == Some(130) && report.kind() == "cancelled", "{status}: {}", report.json());
    ensure!(report.stdout() == "partial\n", "it printed {:?}", report.stdout());
    ground.check_nothing_left()
}

/// With `SIGHUP` ignored, as `nohup` starts a command, codebox keeps running.
fn hang_up_ignored(ground: &Ground) -> Result<()> {
    let job = ground.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", WAITING]);
    let started = Started::ignoring(ground, &job, "HUP")?;
    signal(started.child.id(), "-HUP")?;
    std::fs::write(ground.canaries.grant().join("go"), "")?;
    let (status, report) = ended(started)?;
    ensure!(status.success() && report.stdout() == "told\n", "{status}: {}", report.json());
    ground.check_nothing_left()
}

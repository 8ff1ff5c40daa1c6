//! O10: termination signals to codebox. codebox ends its job, reports the outcome and leaves nothing behind.

use std::io::Read as _;
use std::process::{Command, ExitStatus};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Report;

use crate::row::{Row, row};
use crate::running_jobs::{RunningJob, WAITING_PROGRAM};
use crate::test_env::TestEnvironment;

pub fn rows() -> Vec<Row> {
    vec![
        row("O10::sigterm", |test_env| reports_cancellation(test_env, &["-TERM"])),
        row("O10::sighup", |test_env| reports_cancellation(test_env, &["-HUP"])),
        row("O10::sigint_twice", |test_env| reports_cancellation(test_env, &["-INT", "-INT"])),
        row("O10::sigterm_then_sigint", |test_env| reports_cancellation(test_env, &["-TERM", "-INT"])),
        row("O10::sighup_ignored", keeps_running_with_sighup_ignored),
    ]
}

/// Returns a job of ten minutes that ignores `SIGINT` and has printed a line.
fn program_ignoring_sigint() -> String {
    let setup = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)";
    format!("{setup}\nprint('partial', flush=True)\n{WAITING_PROGRAM}")
}

fn signal(process: u32, signal: &str) -> Result<()> {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status()?;
    ensure!(sent.success(), "{signal} cannot be sent");
    Ok(())
}

/// Waits for codebox and reads its report.
fn wait_for_report(mut running: RunningJob) -> Result<(ExitStatus, Report)> {
    let mut out = String::new();
    running.child.stdout.take().context("output is not captured")?.read_to_string(&mut out)?;
    let status = running.child.wait()?;
    Ok((status, Report::new(serde_json::from_str(&out).with_context(|| format!("stdout is {out:?}"))?)))
}

fn reports_cancellation(test_env: &TestEnvironment, signals: &[&str]) -> Result<()> {
    let code = program_ignoring_sigint();
    let job = test_env.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", &code]);
    let running = RunningJob::new(test_env, &job)?;
    for name in signals {
        signal(running.child.id(), name)?;
    }
    let (status, report) = wait_for_report(running)?;
    ensure!(status.code() == Some(130) && report.kind() == "cancelled", "{status}: {}", report.json());
    ensure!(report.stdout() == "partial\n", "stdout is {:?}", report.stdout());
    test_env.check_nothing_left()
}

/// With `SIGHUP` ignored, as `nohup` starts a command, codebox keeps running.
fn keeps_running_with_sighup_ignored(test_env: &TestEnvironment) -> Result<()> {
    let job = test_env.run_granted().args(["--timeout", "600s", "--lang", "python", "-c", WAITING_PROGRAM]);
    let running = RunningJob::with_signal_ignored(test_env, &job, "HUP")?;
    signal(running.child.id(), "-HUP")?;
    std::fs::write(test_env.canaries.grant().join("go"), "")?;
    let (status, report) = wait_for_report(running)?;
    ensure!(status.success() && report.stdout() == "done\n", "{status}: {}", report.json());
    test_env.check_nothing_left()
}

//! What it costs a run in WebAssembly that a second process stands by, to run it again in a container.

use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Contest;
use super::table::{Measured, Row};
use super::timing::{Medians, median};

const WHAT: &str = "whole process with another standing by, `print(1)`, vs `--isolation wasm`";
const PIPED: &str = "the same, until nobody has its output open any more";

/// Until the process has ended.
///
/// # Errors
/// When an answer is wrong.
pub fn ended(contest: &Contest) -> Result<Row> {
    compare(contest, WHAT, |times| times.0)
}

/// Until a reader of its output comes to the end.
///
/// # Errors
/// When an answer is wrong.
pub fn read(contest: &Contest) -> Result<Row> {
    compare(contest, PIPED, |times| times.1)
}

fn compare(contest: &Contest, what: &'static str, of: fn((Duration, Duration)) -> Duration) -> Result<Row> {
    let row = |measured| Row { what, bar: None, measured };
    if !has_engine(contest)? {
        return Ok(row(Err("no engine, so that nobody stands by".to_owned())));
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..contest.runs.short {
        let mut codebox = contest.codebox();
        with.push(of(times(codebox.args(["-c", "print(1)"]))?));
        let mut codebox = contest.codebox();
        without.push(of(times(codebox.args(["--isolation", "wasm", "-c", "print(1)"]))?));
    }
    let medians = Medians { one: median(&mut with), other: median(&mut without) };
    Ok(row(Ok(Measured::of(&medians, format!("{} each", contest.runs.short)))))
}

/// Whether an engine is there, as `codebox explain` finds it.
fn has_engine(contest: &Contest) -> Result<bool> {
    let mut codebox = Command::new(&contest.codebox);
    codebox.env("CODEBOX_HOME", &contest.project.home).args([
        "explain",
        "--json",
        "-c",
        "# codebox: isolation=container",
    ]);
    let output = codebox.stdin(Stdio::null()).output().context("start codebox")?;
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).context("read what codebox explains")?;
    Ok(told["isolation"] == "container")
}

/// How long a process takes to end, and its output to be nobody's any more.
fn times(command: &mut Command) -> Result<(Duration, Duration)> {
    let (mut output, ours) = io::pipe().context("make a pipe")?;
    command.stdin(Stdio::null()).stdout(ours).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().context("start codebox")?;
    // What the command holds of the pipe would keep it open.
    command.stdout(Stdio::null());
    let status = child.wait().context("wait for codebox")?;
    let ended = began.elapsed();
    let mut text = String::new();
    output.read_to_string(&mut text).context("read what codebox prints")?;
    let read = began.elapsed();
    ensure!(status.success() && text == "1\n", "codebox printed {text:?} and ended with {status}");
    Ok((ended, read))
}

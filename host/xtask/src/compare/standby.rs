//! Cost, for a run in WebAssembly, of a second process on standby for a rerun in a container.

use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Medians, median};

const WHAT: &str = "whole process with another standing by, `print(1)`, vs `--isolation wasm`";
const PIPED: &str = "the same, until its output pipe is closed";

/// Compares the times until the process has ended.
///
/// # Errors
/// Fails if an output is wrong.
pub fn ended(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, WHAT, |times| times.0)
}

/// Compares the times until the output reaches end of file.
///
/// # Errors
/// Fails if an output is wrong.
pub fn read(inputs: &BenchInputs) -> Result<Row> {
    compare(inputs, PIPED, |times| times.1)
}

fn compare(inputs: &BenchInputs, what: &'static str, of: fn((Duration, Duration)) -> Duration) -> Result<Row> {
    let row = |measurement| Row { what, max_ratio: None, measurement };
    if !has_engine(inputs)? {
        return Ok(row(Err("no engine, so no standby process".to_owned())));
    }
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..inputs.runs.short {
        let mut codebox = inputs.codebox();
        with.push(of(times(codebox.args(["-c", "print(1)"]))?));
        let mut codebox = inputs.codebox();
        without.push(of(times(codebox.args(["--isolation", "wasm", "-c", "print(1)"]))?));
    }
    let medians = Medians { one: median(&mut with), other: median(&mut without) };
    Ok(row(Ok(Measurement::of(&medians, format!("{} each", inputs.runs.short)))))
}

/// Returns true if `codebox explain` finds an engine.
fn has_engine(inputs: &BenchInputs) -> Result<bool> {
    let mut codebox = Command::new(&inputs.codebox);
    codebox.env("CODEBOX_HOME", &inputs.project.home).args([
        "explain",
        "--json",
        "-c",
        "# codebox: isolation=container",
    ]);
    let output = codebox.stdin(Stdio::null()).output().context("start codebox")?;
    let explanation: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("parse the output of codebox explain")?;
    Ok(explanation["isolation"] == "container")
}

/// Measures the time until a process ends and the time until its output reaches end of file.
fn times(command: &mut Command) -> Result<(Duration, Duration)> {
    let (mut output, ours) = io::pipe().context("make a pipe")?;
    command.stdin(Stdio::null()).stdout(ours).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = command.spawn().context("start codebox")?;
    // The command's copy of the write end would keep the pipe open.
    command.stdout(Stdio::null());
    let status = child.wait().context("wait for codebox")?;
    let ended = began.elapsed();
    let mut text = String::new();
    output.read_to_string(&mut text).context("read the output of codebox")?;
    let read = began.elapsed();
    ensure!(status.success() && text == "1\n", "codebox printed {text:?} and ended with {status}");
    Ok((ended, read))
}

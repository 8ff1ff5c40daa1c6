//! Startup of a process: the smallest program.

use std::process::Command;

use anyhow::Result;

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};
use crate::project::output_of;

const PROGRAM: &str = "print(1)";
const EXPECTED_OUTPUT: &str = "1\n";

/// Compares codebox with native Python.
///
/// # Errors
/// Fails if an output is wrong.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let what = "whole process, `codebox run -c 'print(1)'` vs `python3 -c 'print(1)'`";
    compare_with(inputs, inputs.codebox(), what, 1.3)
}

/// Compares a run that a host process serves with native Python.
///
/// # Errors
/// Fails if an output is wrong, or the host process does not start or stop.
pub fn served(inputs: &BenchInputs) -> Result<Row> {
    output_of(inputs.command().args(["host", "start"]))?;
    let what = "the same in a worker of a host process that runs already";
    let mut codebox = inputs.command();
    codebox.arg("run");
    let row = compare_with(inputs, codebox, what, 0.9);
    output_of(inputs.command().args(["host", "stop"]))?;
    row
}

fn compare_with(inputs: &BenchInputs, mut codebox: Command, what: &'static str, max_ratio: f64) -> Result<Row> {
    codebox.args(["-c", PROGRAM]);
    let mut native = inputs.python.command();
    native.args(["-c", PROGRAM]);
    let runs = inputs.runs.short;
    let medians = run_alternately(
        Subject { command: codebox, expected_output: EXPECTED_OUTPUT },
        Subject { command: native, expected_output: EXPECTED_OUTPUT },
        runs,
    )?;
    Ok(Row { what, max_ratio: Some(max_ratio), measurement: Ok(Measurement::of(&medians, format!("{runs} each"))) })
}

//! Startup of a process: the smallest program.

use anyhow::Result;

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};

const WHAT: &str = "whole process, `codebox run -c 'print(1)'` vs `python3 -c 'print(1)'`";
const PROGRAM: &str = "print(1)";
const EXPECTED_OUTPUT: &str = "1\n";

/// Compares codebox with native Python.
///
/// # Errors
/// Fails if an output is wrong.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let mut codebox = inputs.codebox();
    codebox.args(["-c", PROGRAM]);
    let mut native = inputs.python.command();
    native.args(["-c", PROGRAM]);
    let runs = inputs.runs.short;
    let medians = run_alternately(
        Subject { command: codebox, expected_output: EXPECTED_OUTPUT },
        Subject { command: native, expected_output: EXPECTED_OUTPUT },
        runs,
    )?;
    Ok(Row { what: WHAT, max_ratio: Some(1.3), measurement: Ok(Measurement::of(&medians, format!("{runs} each"))) })
}

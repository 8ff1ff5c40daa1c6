//! Startup of a process: the smallest program.

use anyhow::Result;

use super::Contest;
use super::table::{Measured, Row};
use super::timing::{Subject, in_turns};

const WHAT: &str = "whole process, `codebox run -c 'print(1)'` vs `python3 -c 'print(1)'`";
const PROGRAM: &str = "print(1)";
const ANSWER: &str = "1\n";

/// Compares codebox with native Python.
///
/// # Errors
/// Fails if an answer is wrong.
pub fn compare(contest: &Contest) -> Result<Row> {
    let mut codebox = contest.codebox();
    codebox.args(["-c", PROGRAM]);
    let mut native = contest.python.command();
    native.args(["-c", PROGRAM]);
    let runs = contest.runs.short;
    let medians =
        in_turns(Subject { command: codebox, answer: ANSWER }, Subject { command: native, answer: ANSWER }, runs)?;
    Ok(Row { what: WHAT, bar: Some(1.3), measured: Ok(Measured::of(&medians, format!("{runs} each"))) })
}

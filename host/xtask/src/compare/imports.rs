//! Script whose imports take long.

use std::fs;

use anyhow::{Context, Result};

use super::Contest;
use super::table::{Measured, Row};
use super::timing::{Subject, in_turns};

const WHAT: &str = "whole process, a script importing numpy and pandas vs native Python doing it";
const SCRIPT: &str = "\
import numpy as np
import pandas as pd

frame = pd.DataFrame({'key': [1, 2, 1], 'value': np.arange(3)})
print(int(frame.groupby('key')['value'].sum().loc[1]))
";
const ANSWER: &str = "2\n";

/// Compares codebox with native Python; the row gives the reason if no native Python has both packages.
///
/// # Errors
/// Fails if an answer is wrong.
pub fn compare(contest: &Contest) -> Result<Row> {
    if let Err(error) = contest.python.have_data() {
        return Ok(Row {
            what: WHAT,
            bar: Some(0.06),
            measured: Err(format!("no native numpy and pandas: {error:#}")),
        });
    }
    let folder = tempfile::tempdir().context("make a folder for the script")?;
    let script = folder.path().join("script.py");
    fs::write(&script, SCRIPT).context("write the script")?;
    let mut codebox = contest.codebox();
    codebox.arg(&script);
    let mut native = contest.python.command();
    native.arg(&script);
    // Of each pair, codebox takes a few milliseconds and Python hundreds.
    let runs = contest.runs.long * 3;
    let medians =
        in_turns(Subject { command: codebox, answer: ANSWER }, Subject { command: native, answer: ANSWER }, runs)?;
    Ok(Row { what: WHAT, bar: Some(0.06), measured: Ok(Measured::of(&medians, format!("{runs} each"))) })
}

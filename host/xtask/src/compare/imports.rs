//! Script whose imports take long.

use std::fs;

use anyhow::{Context, Result};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};

const WHAT: &str = "whole process, a script importing numpy and pandas vs native Python doing it";
const SCRIPT: &str = "\
import numpy as np
import pandas as pd

frame = pd.DataFrame({'key': [1, 2, 1], 'value': np.arange(3)})
print(int(frame.groupby('key')['value'].sum().loc[1]))
";
const EXPECTED_OUTPUT: &str = "2\n";

/// Compares codebox with native Python; the row gives the reason if no native Python has both packages.
///
/// # Errors
/// Fails if an output is wrong.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    if let Err(error) = inputs.python.ensure_data_packages() {
        return Ok(Row {
            what: WHAT,
            max_ratio: Some(0.06),
            measurement: Err(format!("no native numpy and pandas: {error:#}")),
        });
    }
    let folder = tempfile::tempdir().context("make a folder for the script")?;
    let script = folder.path().join("script.py");
    fs::write(&script, SCRIPT).context("write the script")?;
    let mut codebox = inputs.codebox();
    codebox.arg(&script);
    let mut native = inputs.python.command();
    native.arg(&script);
    // Of each pair, codebox takes a few milliseconds and Python hundreds.
    let runs = inputs.runs.long * 3;
    let medians = run_alternately(
        Subject { command: codebox, expected_output: EXPECTED_OUTPUT },
        Subject { command: native, expected_output: EXPECTED_OUTPUT },
        runs,
    )?;
    Ok(Row { what: WHAT, max_ratio: Some(0.06), measurement: Ok(Measurement::of(&medians, format!("{runs} each"))) })
}

//! Cost of the audit log for a whole run.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::BenchInputs;
use super::table::{Measurement, Row};
use super::timing::{Subject, run_alternately};

const PROGRAM: &str = "print(1)";
const EXPECTED_OUTPUT: &str = "1\n";

/// Most time that the log may add to a run.
const MAX_COST: Duration = Duration::from_micros(300);

/// Compares a run that is recorded with the same run in a home whose log is turned off.
///
/// # Errors
/// Fails if an output is wrong, or if the second home cannot be made.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let what = "a run with the audit log vs without, at most 0.3 ms more";
    let folder = tempfile::tempdir().context("create a directory")?;
    // The runtimes are installed in both homes, which are copies, because the place of files on the disk counts; only the settings differ.
    let subject = |name: &str, config: &str| -> Result<Command> {
        let home = folder.path().join(name);
        let copied = Command::new("cp").arg("-a").arg(&inputs.project.home).arg(&home).status().context("start cp")?;
        ensure!(copied.success(), "cannot copy {}: {copied}", inputs.project.home.display());
        fs::create_dir_all(home.join("config")).context("create the configuration directory")?;
        fs::write(home.join("config/config.toml"), config).context("write the configuration")?;
        let mut command = inputs.codebox();
        command.env("CODEBOX_HOME", &home).args(["-c", PROGRAM]);
        Ok(command)
    };
    let (with, without) = (subject("with", "audit = true\n")?, subject("without", "audit = false\n")?);
    let runs = inputs.runs.short;
    let medians = run_alternately(
        Subject { command: with, expected_output: EXPECTED_OUTPUT },
        Subject { command: without, expected_output: EXPECTED_OUTPUT },
        runs,
    )?;
    let max_ratio = 1.0 + MAX_COST.as_secs_f64() / medians.other.as_secs_f64();
    Ok(Row { what, max_ratio: Some(max_ratio), measurement: Ok(Measurement::of(&medians, format!("{runs} each"))) })
}

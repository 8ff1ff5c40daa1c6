//! CPU-bound JavaScript in the guest and in a native build of the same engine.
//!
//! The programs are in `benches/javascript`. Each times its own work and checks its result.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::table::{Measurement, Row};
use super::{BenchInputs, qjs};
use crate::project::{command_line, output_of};

const WHAT: &str =
    "CPU-bound JavaScript vs a native build of the same QuickJS-NG, geometric mean of 6 classic programs";
const MAX_RATIO: Option<f64> = Some(1.5);
const FOLDER: &str = "benches/javascript";
const PROGRAMS: [&str; 6] = ["richards", "deltablue", "nbody", "trees", "fannkuch", "texts"];

/// Compares each program's own seconds; the row gives the reason if a native build is not available.
///
/// # Errors
/// Fails if a program fails or computes a wrong result.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let native = match qjs::build(&inputs.project) {
        Ok(native) => native,
        Err(error) => {
            return Ok(Row {
                what: WHAT,
                max_ratio: MAX_RATIO,
                measurement: Err(format!("no native build: {error:#}")),
            });
        }
    };
    let folder = inputs.project.root.join(FOLDER);
    let mut pairs = Vec::new();
    for program in PROGRAMS {
        let file = folder.join(format!("{program}.mjs"));
        let mut least = (Duration::MAX, Duration::MAX);
        for _ in 0..inputs.runs.long {
            least.0 = least.0.min(seconds(&mut in_guest(inputs, &folder, &file), program)?);
            least.1 = least.1.min(seconds(Command::new(&native).arg(&file), program)?);
        }
        let pair = (least.0.as_secs_f64(), least.1.as_secs_f64());
        eprintln!("  {program:<14} {:.2}x", pair.0 / pair.1);
        pairs.push(pair);
    }
    let runs = format!("least of {}, {} programs", inputs.runs.long, pairs.len());
    Ok(Row { what: WHAT, max_ratio: MAX_RATIO, measurement: Ok(Measurement::of_pairs(&pairs, runs)) })
}

fn in_guest(inputs: &BenchInputs, folder: &Path, file: &Path) -> Command {
    let mut guest = inputs.codebox();
    guest.arg(format!("--dir={}:/work:ro", folder.display())).arg(file);
    guest
}

/// Runs one program, which fails if its result is wrong, and returns the time that the program reports.
fn seconds(command: &mut Command, program: &str) -> Result<Duration> {
    let stdout = output_of(command)?;
    let seconds = stdout.strip_prefix(program).and_then(|rest| rest.trim().parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| *seconds > 0.0);
    seconds
        .map(Duration::from_secs_f64)
        .with_context(|| format!("{} printed no duration but {stdout:?}", command_line(command)))
}

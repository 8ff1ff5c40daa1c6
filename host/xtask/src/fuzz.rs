//! Fuzz targets of `fuzz/`, each run for a given time.
//!
//! The directory has the layout of `cargo fuzz`, which is convenient for work on one target. This task needs only the
//! stable compiler and a C++ compiler: coverage counters are ordinary compiler options, and safe code gains little from
//! a sanitizer.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::project::{Project, output_of};

/// Fuzz target and its options.
struct Target {
    name: &'static str,
    /// libFuzzer arguments in addition to those of all targets.
    args: &'static [&'static str],
}

/// Arguments for targets whose input may exhaust the fuzzer's resources; in codebox, such an input ends only one
/// process.
const MAY_EXHAUST: &[&str] = &["-max_len=4096", "-fork=1", "-ignore_ooms=1", "-ignore_timeouts=1", "-timeout=10"];

const TARGETS: [Target; 7] = [
    Target { name: "strip", args: MAY_EXHAUST },
    Target { name: "analysis", args: MAY_EXHAUST },
    Target { name: "agent_frames", args: &[] },
    Target { name: "handover", args: &[] },
    Target { name: "mounts", args: &[] },
    Target { name: "archives", args: &[] },
    Target { name: "metadata", args: &[] },
];

/// Compiler options, as in `cargo fuzz`, that let libFuzzer see which branches an input takes.
const COVERAGE: [&str; 8] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
];

/// Runs every target, or only the named one, for `seconds` each, and fails if any has a finding.
///
/// # Errors
/// Fails if the named target does not exist, a target cannot be built, or a target has a finding.
pub fn run(project: &Project, seconds: u64, only: Option<&str>) -> Result<()> {
    let targets: Vec<&Target> = TARGETS.iter().filter(|target| only.is_none_or(|only| only == target.name)).collect();
    ensure!(!targets.is_empty(), "no fuzz target is called {}", only.unwrap_or_default());
    let mut failed = Vec::new();
    for target in targets {
        let began = Instant::now();
        let program = build(project, target.name)?;
        let passed = fuzz(project, target, &program, seconds)?;
        println!("fuzz: {} {} in {:.0?}", target.name, if passed { "passed" } else { "FAILED" }, began.elapsed());
        if !passed {
            failed.push(target.name);
        }
    }
    if !failed.is_empty() {
        bail!("findings in {}; see fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

/// Builds a target and returns its program.
fn build(project: &Project, name: &str) -> Result<PathBuf> {
    let host = output_of(Command::new("rustc").args(["--print", "host-tuple"]))?.trim().to_owned();
    let into = project.target.join("fuzz");
    // The lock file pins the versions that codebox is built with; cargo adds the dependencies of the targets alone.
    let lock = project.root.join("fuzz/Cargo.lock");
    std::fs::copy(project.root.join("Cargo.lock"), &lock).with_context(|| format!("write {}", lock.display()))?;
    let mut cargo = project.cargo();
    // An explicit target keeps these flags away from build scripts.
    cargo.args(["build", "--release", "--target", &host, "--bin", name, "--manifest-path", "fuzz/Cargo.toml"]);
    if matches!(name, "archives" | "metadata") {
        cargo.args(["--features", "packages"]);
    }
    cargo.arg("--target-dir").arg(&into).env("RUSTFLAGS", COVERAGE.join(" ")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    ensure!(cargo.status().context("start cargo")?.success(), "the fuzz target {name} could not be built");
    Ok(into.join(host).join("release").join(name))
}

/// Runs a target and returns true if it has no finding.
fn fuzz(project: &Project, target: &Target, program: &Path, seconds: u64) -> Result<bool> {
    let fuzz = project.root.join("fuzz");
    let corpus = fuzz.join("corpus").join(target.name);
    let artifacts = fuzz.join("artifacts").join(target.name);
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    // Parsers recurse for each level of an input.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -s 1000000; exec \"$0\" \"$@\""]).arg(program).args(target.args);
    shell.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    shell.arg(format!("-artifact_prefix={}/", artifacts.display()));
    shell.arg(&corpus).arg(fuzz.join("seeds").join(target.name)).current_dir(&fuzz);
    Ok(shell.status().context("start the fuzz target")?.success())
}

//! Programs of pyperformance, run briefly and compared by digest.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Kit, pyperformance_dir};
use libtest_mimic::Trial;
use serde_json::Value;

use crate::{Shared, completion, shared, unavailable, wheel};

/// Reads the list of programs and of the wheel that contains them.
fn list() -> Result<Value> {
    let text = fs::read(pyperformance_dir().join("benchmarks.json"))?;
    Ok(serde_json::from_slice(&text)?)
}

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let list = list()?;
    let programs = list["programs"].as_array().context("no programs")?.clone();
    let kit_to_fetch = kit.clone();
    let folder = shared(move || wheel::fetch_programs(&kit_to_fetch, &list));
    let trial = |program: Value| {
        let (kit, ready, folder) = (kit.clone(), ready.clone(), folder.clone());
        let name = program["name"].as_str().unwrap_or("?").to_owned();
        Trial::ignorable_test(format!("pyperformance::{name}"), move || match (&**ready, &**folder) {
            (Err(reason), _) => unavailable("wasm", reason),
            (_, Err(reason)) => unavailable("pyperformance", reason),
            (Ok(()), Ok(folder)) => completion(run(&kit, folder, &program)),
        })
    };
    Ok(programs.into_iter().map(trial).collect())
}

/// Checks that the list contains at least the promised number of programs.
pub fn check_program_count() -> Result<()> {
    let count = list()?["programs"].as_array().map_or(0, Vec::len);
    ensure!(count >= 20, "{count} programs are too few");
    Ok(())
}

fn run(kit: &Kit, folder: &Path, program: &Value) -> Result<()> {
    let name = program["name"].as_str().context("no name")?;
    let digest = program["digest"].as_str().context("no digest")?;
    let driver: &Path = &pyperformance_dir().canonicalize()?.join("driver.py");
    let args = program["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let run = kit.codebox().args(["run", "--isolation", "wasm", "--timeout", "200s"]).grant(folder, "/bench", "ro");
    let run = run.arg(driver).arg(name).arg(program["loops"].to_string()).args(args);
    let result = run.deadline(Duration::from_secs(220)).run()?;
    ensure!(result.code == Some(0), "status is {:?}\n{}", result.code, result.stderr_text());
    let printed = result.stdout_text();
    ensure!(printed.trim() == format!("{name} {digest}"), "stdout is {printed:?}, expected {digest}");
    Ok(())
}

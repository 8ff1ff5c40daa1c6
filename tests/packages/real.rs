//! Most used packages, from the user's own index, each in the tier that supports it.
//!
//! The trials fetch a few hundred files, so they run only if `CODEBOX_REAL` names `pypi`. Fetched files are kept in a
//! separate home. If the index does not respond, the trials are ignored with the reason; `CODEBOX_REQUIRE=pypi` makes
//! that a failure.

mod programs;
mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Kit, Report, engine_answers, is_required};
use libtest_mimic::{Completion, Failed, Trial};

use programs::{PROGRAMS, Program};
use table::{Row, Table};

/// Deadline that includes fetching and compiling a shared package while other programs wait for it.
const DEADLINE: Duration = Duration::from_secs(600);

/// Shared environment of the trials.
struct Ground {
    home: PathBuf,
    /// Versions of Python in WebAssembly and in containers.
    pythons: [String; 2],
}

type Shared = Arc<LazyLock<Result<Ground, String>, Box<dyn FnOnce() -> Result<Ground, String> + Send>>>;

pub fn trials(kit: &Kit, ready: &Result<(), String>) -> Vec<Trial> {
    let (making, wasm) = (kit.clone(), ready.clone());
    let ground: Shared = Arc::new(LazyLock::new(Box::new(move || {
        wasm?;
        ground(&making).map_err(|error| format!("{error:#}"))
    })));
    let table = Table::default();
    let trial = |program: &'static Program| {
        let (kit, ground, table) = (kit.clone(), Arc::clone(&ground), table.clone());
        Trial::ignorable_test(format!("real::{}", program.0), move || {
            if !are_asked_for() {
                return Ok(Completion::ignored_with("CODEBOX_REAL does not name pypi"));
            }
            match &**ground {
                Err(reason) => without(reason),
                Ok(ground) => {
                    tried(&kit, ground, program, &table).map_err(|error| Failed::from(format!("{error:#}")))?
                }
            }
        })
    };
    PROGRAMS.iter().map(trial).collect()
}

fn are_asked_for() -> bool {
    std::env::var("CODEBOX_REAL").is_ok_and(|names| names.split(',').any(|name| name == "pypi"))
}

fn without(reason: &str) -> Result<Completion, Failed> {
    if is_required("pypi") { Err(reason.into()) } else { Ok(Completion::ignored_with(reason)) }
}

fn ground(kit: &Kit) -> Result<Ground> {
    let docker = engine_answers(kit, "docker");
    let engine = if docker.is_ok() { "docker" } else { "podman" };
    if docker.is_err() {
        engine_answers(kit, engine)?;
    }
    let home = kit.temporary().join("packages-home");
    fs::create_dir_all(&home)?;
    kit.home_with_engine(&home, engine, "")?;
    let python = |isolation: &str| {
        let ask = ["run", "--isolation", isolation, "--lang", "python", "-c"];
        let said =
            kit.codebox().home(&home).args(ask).arg("import sys; print(*sys.version_info[:2], sep='.')").run()?;
        ensure!(said.code == Some(0), "{isolation} does not tell its Python: {}", said.stderr_text());
        Ok(said.stdout_text().trim().to_owned())
    };
    let pythons = [python("wasm")?, python("container")?];
    Ok(Ground { home, pythons })
}

/// Runs the program and records its tier; the inner error means that the index is unreachable.
fn tried(
    kit: &Kit,
    ground: &Ground,
    (name, program, expected): &'static Program,
    table: &Table,
) -> Result<Result<Completion, Failed>> {
    let job = |words: &[&str]| {
        let job = kit.codebox().home(&ground.home).inherit_env().deadline(DEADLINE).args(words.iter().copied());
        job.args(["--json", "--with", name, "-c", program]).run()
    };
    let told = job(&["explain"])?.report()?;
    if told.kind() == "engine_unavailable" && told.json().to_string().contains("index") {
        return Ok(without(told.at("/error/message").as_str().unwrap_or_default()));
    }
    let ran = job(&["run"])?;
    let report = ran.report()?;
    let tier = match report.at("/provenance/isolation").as_str() {
        Some("container") => format!("container, Python {}", ground.pythons[1]),
        Some(other) => format!("{other}, Python {}", ground.pythons[0]),
        None => "none".to_owned(),
    };
    let runs = report.kind() == "ok" && report.stdout().trim_end() == *expected;
    let why_not = (!runs).then(|| reason(&report));
    let row = Row { tier, why: why(&told), why_not };
    table.settle(name, &row)?;
    // A documented failure matches the page; it still fails this test unless the package cannot be installed.
    ensure!(runs || report.kind() == "install_failed", "{} {}", ran.stdout_text(), ran.stderr_text());
    Ok(Ok(Completion::Completed))
}

/// Derives the reason for the tier from the notes of the resolution.
fn why(told: &Report) -> String {
    let notes = told.at("/packages").as_array().map(Vec::as_slice).unwrap_or_default();
    let notes: Vec<&str> = notes.iter().filter_map(serde_json::Value::as_str).collect();
    let native = notes.iter().find_map(|note| note.strip_prefix("packages that require a container: "));
    if let Some(native) = native {
        return format!("native: {native}");
    }
    let pure = notes.iter().find_map(|note| note.strip_prefix("packages: ")).map(|all| all.split(", ").count());
    let built_in = notes.iter().filter(|note| note.ends_with(" is built in")).count();
    match (pure, built_in) {
        (Some(1), 0) => "pure".to_owned(),
        (Some(count), 0) => format!("{count} pure packages"),
        (Some(1), built_in) => format!("1 pure package, {built_in} built in"),
        (Some(count), built_in) => format!("{count} pure packages, {built_in} built in"),
        (None, _) => "built in".to_owned(),
    }
}

fn reason(report: &Report) -> String {
    let said = [report.at("/error/message"), report.at("/error/value"), report.at("/kind")];
    let said = said.iter().find_map(|said| said.as_str()).unwrap_or_default();
    said.lines().next().unwrap_or_default().replace('|', "/").chars().take(160).collect()
}

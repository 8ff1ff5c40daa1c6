//! Most used packages, from the user's own index, each in the tier that supports it.
//!
//! The trials fetch files, a few hundred in the full form and a quarter of them otherwise, so they run only if
//! `CODEBOX_REAL` names `pypi`. Fetched files are kept in a separate home. If the index does not respond, the trials are
//! ignored with the reason; `CODEBOX_REQUIRE=pypi` makes that a failure.

mod programs;
mod table;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::{Result, ensure};
use codebox_testkit::{Kit, Report, check_engine, has_registries, is_required, is_selected};
use libtest_mimic::{Completion, Failed, Trial};

use programs::{PROGRAMS, Program};
use table::{Row, Table};

/// Deadline that includes fetching and compiling a shared package while other programs wait for it.
const DEADLINE: Duration = Duration::from_secs(600);

/// Shared environment of the trials.
struct TestEnvironment {
    home: PathBuf,
    /// Versions of Python in WebAssembly and in containers.
    pythons: [String; 2],
}

type Shared =
    Arc<LazyLock<Result<TestEnvironment, String>, Box<dyn FnOnce() -> Result<TestEnvironment, String> + Send>>>;

pub fn trials(kit: &Kit, ready: &Result<(), String>) -> Vec<Trial> {
    let (kit_to_prepare, wasm) = (kit.clone(), ready.clone());
    let test_env: Shared = Arc::new(LazyLock::new(Box::new(move || {
        wasm?;
        test_env(&kit_to_prepare).map_err(|error| format!("{error:#}"))
    })));
    let table = Table::default();
    let trial = |program: &'static Program| {
        let (kit, test_env, table) = (kit.clone(), Arc::clone(&test_env), table.clone());
        Trial::ignorable_test(format!("real::{}", program.0), move || {
            if !has_registries() {
                return Ok(Completion::ignored_with("CODEBOX_REAL does not name pypi"));
            }
            match &**test_env {
                Err(reason) => unavailable(reason),
                Ok(test_env) => {
                    run_program(&kit, test_env, program, &table).map_err(|error| Failed::from(format!("{error:#}")))?
                }
            }
        })
    };
    let programs = PROGRAMS.iter().enumerate().filter(|(number, _)| is_selected(*number, 4));
    programs.map(|(_, program)| trial(program)).collect()
}

fn unavailable(reason: &str) -> Result<Completion, Failed> {
    if is_required("pypi") { Err(reason.into()) } else { Ok(Completion::ignored_with(reason)) }
}

fn test_env(kit: &Kit) -> Result<TestEnvironment> {
    let docker = check_engine(kit, "docker");
    let engine = if docker.is_ok() { "docker" } else { "podman" };
    if docker.is_err() {
        check_engine(kit, engine)?;
    }
    let home = kit.temporary().join("packages-home");
    fs::create_dir_all(&home)?;
    kit.home_with_engine(&home, engine, "")?;
    let python = |isolation: &str| {
        let python_args = ["run", "--isolation", isolation, "--lang", "python", "-c"];
        let output = kit
            .codebox()
            .home(&home)
            .args(python_args)
            .arg("import sys; print(*sys.version_info[:2], sep='.')")
            .run()?;
        ensure!(output.code == Some(0), "{isolation} does not print its Python version: {}", output.stderr_text());
        Ok(output.stdout_text().trim().to_owned())
    };
    let pythons = [python("wasm")?, python("container")?];
    Ok(TestEnvironment { home, pythons })
}

/// Runs the program and records its tier; the inner error means that the index is unreachable.
fn run_program(
    kit: &Kit,
    test_env: &TestEnvironment,
    (name, program, expected): &'static Program,
    table: &Table,
) -> Result<Result<Completion, Failed>> {
    let job = |arguments: &[&str]| {
        let job = kit.codebox().home(&test_env.home).inherit_env().deadline(DEADLINE).args(arguments.iter().copied());
        job.args(["--json", "--with", name, "-c", program]).run()
    };
    let explanation = job(&["explain"])?.report()?;
    if explanation.kind() == "engine_unavailable" && explanation.json().to_string().contains("index") {
        return Ok(unavailable(explanation.at("/error/message").as_str().unwrap_or_default()));
    }
    let result = job(&["run"])?;
    let report = result.report()?;
    let tier = match report.at("/provenance/isolation").as_str() {
        Some("container") => format!("container, Python {}", test_env.pythons[1]),
        Some(other) => format!("{other}, Python {}", test_env.pythons[0]),
        None => "none".to_owned(),
    };
    let runs = report.kind() == "ok" && report.stdout().trim_end() == *expected;
    let failure = (!runs).then(|| reason(&report));
    let row = Row { tier, tier_reason: tier_reason(&explanation), failure };
    table.compare_or_write(name, &row)?;
    // A documented failure matches the page; it still fails this test unless the package cannot be installed.
    ensure!(runs || report.kind() == "install_failed", "{} {}", result.stdout_text(), result.stderr_text());
    Ok(Ok(Completion::Completed))
}

/// Derives the reason for the tier from the notes of the resolution.
fn tier_reason(explanation: &Report) -> String {
    let notes = explanation.at("/packages").as_array().map(Vec::as_slice).unwrap_or_default();
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
    let output = [report.at("/error/message"), report.at("/error/value"), report.at("/kind")];
    let output = output.iter().find_map(|output| output.as_str()).unwrap_or_default();
    output.lines().next().unwrap_or_default().replace('|', "/").chars().take(160).collect()
}

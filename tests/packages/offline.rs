//! Unreachable indexes and their cached responses.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;
use serde_json::Value;

use crate::index::{Index, pure, unique};
use crate::{Case, run, run_expecting_failure, without_engines};

pub const CASES: &[Case] =
    &[("reports_disabled_network", reports_disabled_network), ("uses_cached_resolution", uses_cached_resolution)];

fn reports_disabled_network(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let job = run(kit, &index).env("UV_OFFLINE", "1").args(["--with", &unique("unseen"), "-c", "print(1)"]);
    let output = run_expecting_failure(job, "engine_unavailable")?;
    ensure!(output.contains("UV_OFFLINE") && output.contains("cbt-unseen"), "{output}");
    ensure!(index.requests().is_empty(), "{:?}", index.requests());
    Ok(())
}

fn uses_cached_resolution(kit: &Kit) -> Result<()> {
    let name = unique("old");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    // A separate home is needed, because the test deletes cached responses.
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let packages = home.path().join("cache/packages");
    let program = format!("import {module}\nprint({module}.VALUE)");
    let address = index.address.clone();
    let run_and_count_notes = |offline: &str| -> Result<usize> {
        let job = without_engines(kit.run_json().env("UV_DEFAULT_INDEX", address.as_str())).home(home.path());
        let job = job.env("UV_HTTP_RETRIES", "0").env("UV_OFFLINE", offline);
        let result = job.args(["--with", &name, "-c", &program]).run()?;
        ensure!(result.report()?.stdout() == "7\n", "{}\n{}", result.stdout_text(), result.stderr_text());
        Ok(result.stderr_text().matches("using the previously resolved packages").count())
    };
    ensure!(run_and_count_notes("0")? == 0);
    let request_count = index.requests().len();
    age_responses(&packages)?;
    fs::remove_dir_all(packages.join("index"))?;
    ensure!(run_and_count_notes("1")? == 1, "expected one note");
    ensure!(index.requests().len() == request_count, "{:?}", index.requests());
    // For a while, neither the query nor the note is repeated.
    ensure!(run_and_count_notes("1")? == 0);
    // The result is the same if the index does not respond.
    age_responses(&packages)?;
    drop(index);
    ensure!(run_and_count_notes("0")? == 1, "expected one note");
    Ok(())
}

/// Dates every cached response back by two days.
fn age_responses(packages: &Path) -> Result<()> {
    let mut aged_responses = 0;
    for entry in fs::read_dir(packages.join("remembered"))? {
        let path = entry?.path();
        let mut response: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let time = response["at"].as_u64().context("a cached response has no time")?;
        response["at"] = (time - 2 * 24 * 60 * 60).into();
        fs::write(&path, response.to_string())?;
        aged_responses += 1;
    }
    ensure!(aged_responses > 0, "no response is cached");
    Ok(())
}

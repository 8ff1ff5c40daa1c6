//! Unreachable indexes and their cached responses.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::Kit;
use serde_json::Value;

use crate::index::{Index, pure, unique};
use crate::{Case, refused, run, without_engines};

pub const CASES: &[Case] = &[("a_network_that_is_switched_off_is_named", named), ("an_old_answer_serves", old_answer)];

fn named(kit: &Kit) -> Result<()> {
    let index = Index::of([])?;
    let job = run(kit, &index).env("UV_OFFLINE", "1").args(["--with", &unique("unseen"), "-c", "print(1)"]);
    let said = refused(job, "engine_unavailable")?;
    ensure!(said.contains("UV_OFFLINE") && said.contains("cbt-unseen"), "{said}");
    ensure!(index.seen().is_empty(), "{:?}", index.seen());
    Ok(())
}

fn old_answer(kit: &Kit) -> Result<()> {
    let name = unique("old");
    let module = name.replace('-', "_");
    let index = Index::of([pure(&name, "1", &[], &[(&format!("{module}.py"), "VALUE = 7\n")])])?;
    // A separate home is needed, because the test deletes cached responses.
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), "docker", "")?;
    let packages = home.path().join("cache/packages");
    let program = format!("import {module}\nprint({module}.VALUE)");
    let address = index.address.clone();
    let notes = |offline: &str| -> Result<usize> {
        let job = without_engines(kit.run_json().env("UV_DEFAULT_INDEX", address.as_str())).home(home.path());
        let job = job.env("UV_HTTP_RETRIES", "0").env("UV_OFFLINE", offline);
        let ran = job.args(["--with", &name, "-c", &program]).run()?;
        ensure!(ran.report()?.stdout() == "7\n", "{}\n{}", ran.stdout_text(), ran.stderr_text());
        Ok(ran.stderr_text().matches("using the previously resolved packages").count())
    };
    ensure!(notes("0")? == 0);
    let asked = index.seen().len();
    age(&packages)?;
    fs::remove_dir_all(packages.join("index"))?;
    ensure!(notes("1")? == 1, "it is told of once");
    ensure!(index.seen().len() == asked, "{:?}", index.seen());
    // For a while, neither the query nor the note is repeated.
    ensure!(notes("1")? == 0);
    // The result is the same if the index does not respond.
    age(&packages)?;
    drop(index);
    ensure!(notes("0")? == 1, "it is told of once");
    Ok(())
}

/// Dates every cached response back by two days.
fn age(packages: &Path) -> Result<()> {
    let mut aged = 0;
    for entry in fs::read_dir(packages.join("remembered"))? {
        let path = entry?.path();
        let mut kept: Value = serde_json::from_slice(&fs::read(&path)?)?;
        let at = kept["at"].as_u64().context("an answer has no time")?;
        kept["at"] = (at - 2 * 24 * 60 * 60).into();
        fs::write(&path, kept.to_string())?;
        aged += 1;
    }
    ensure!(aged > 0, "no answer is kept");
    Ok(())
}

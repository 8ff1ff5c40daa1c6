//! Python programs of the fixtures.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Input, Kit, compat_dir, programs_in};
use libtest_mimic::Trial;

use crate::{Shared, completion, unavailable};

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let names = programs_in(&compat_dir())?;
    let trial = |name: String| {
        let (kit, ready) = (kit.clone(), ready.clone());
        Trial::ignorable_test(format!("programs::{name}"), move || match &**ready {
            Ok(()) => completion(run(&kit, &name)),
            Err(reason) => unavailable("wasm", reason),
        })
    };
    Ok(names.into_iter().map(trial).collect())
}

/// Runs one program as its README describes, in an empty directory, and compares output and status.
fn run(kit: &Kit, name: &str) -> Result<()> {
    let fixture_path = |extension: &str| compat_dir().join(format!("{name}.{extension}"));
    let expected = fs::read(fixture_path("out")).with_context(|| format!("{name} has no expected output"))?;
    let code: i32 = match fs::read_to_string(fixture_path("code")) {
        Ok(text) => text.trim().parse()?,
        Err(_) => 0,
    };
    let args = fs::read_to_string(fixture_path("args")).unwrap_or_default();
    let folder = kit.folder()?;
    let program = compat_dir().canonicalize()?.join(format!("{name}.py"));
    let run = kit.codebox().args(["run", "--isolation", "wasm"]).arg(program).args(args.lines());
    let input = fs::read(fixture_path("in")).map_or(Input::Empty, Input::Bytes);
    let result = run.folder(folder.path()).input(input).deadline(Duration::from_secs(100)).run()?;
    ensure!(result.code == Some(code), "status is {:?}, expected {code}\n{}", result.code, result.stderr_text());
    ensure!(result.stdout == expected, "{}\n{}", first_difference(&expected, &result.stdout), result.stderr_text());
    Ok(())
}

/// Describes the first line that differs.
pub fn first_difference(expected: &[u8], found: &[u8]) -> String {
    let (expected, found) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(found));
    let mut lines = expected.lines().zip(found.lines()).enumerate();
    match lines.find(|(_, (one, other))| one != other) {
        Some((at, (one, other))) => format!("line {} is\n  {other}\nand not\n  {one}", at + 1),
        None => format!("{} lines were printed and not {}", found.lines().count(), expected.lines().count()),
    }
}

//! JavaScript programs of the kind people and models write, each a folder with its main file and what Node prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Input, Kit, javascript_dir};
use libtest_mimic::{Completion, Trial};
use serde::Deserialize;

use crate::programs::difference;
use crate::{Shared, completed, without};

/// Endings of main files that the runtime runs.
const MAINS: [&str; 3] = ["main.js", "main.mjs", "main.cjs"];

/// Programs that print something else than under Node, and why.
const UNLIKE_NODE: [(&str, &str); 1] =
    [("dynamic-import", "the promise of importing one of Node's modules is settled a turn earlier")];

/// What a program is given.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Given {
    args: Vec<String>,
    stdin: String,
    env: BTreeMap<String, String>,
}

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let folder = javascript_dir();
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        if main_of(&entry.path()).is_some() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    ensure!(names.len() >= 60, "only {} programs are in {}", names.len(), folder.display());
    let trial = |name: String| {
        let (kit, ready) = (kit.clone(), ready.clone());
        Trial::ignorable_test(format!("javascript::{name}"), move || match &**ready {
            Ok(()) => match UNLIKE_NODE.iter().find(|(unlike, _)| *unlike == name) {
                Some((_, reason)) => Ok(Completion::ignored_with(*reason)),
                None => completed(run(&kit, &name)),
            },
            Err(reason) => without("wasm", reason),
        })
    };
    Ok(names.into_iter().map(trial).collect())
}

fn main_of(folder: &Path) -> Option<&'static str> {
    MAINS.into_iter().find(|main| folder.join(main).is_file())
}

/// Runs one program in a copy of its folder, granted as `/work`, and compares output and status.
fn run(kit: &Kit, name: &str) -> Result<()> {
    let source = javascript_dir().join(name);
    let folder = kit.folder()?;
    copy(&source, folder.path())?;
    let given: Given = match fs::read(source.join("case.json")) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => Given::default(),
    };
    let main = main_of(&source).context("it has no main file")?;
    let env = given.env.iter().flat_map(|(name, value)| ["--env".to_owned(), format!("{name}={value}")]);
    let run = kit.codebox().args(["run", "--isolation", "wasm"]).grant(folder.path(), "/work", "rw").args(env);
    let run = run.arg(main).args(&given.args).folder(folder.path()).input(Input::Bytes(given.stdin.into_bytes()));
    let ran = run.deadline(Duration::from_secs(60)).run()?;
    let expected = fs::read(source.join("expected.stdout"))?;
    let status: i32 = fs::read_to_string(source.join("expected.status"))?.trim().parse()?;
    ensure!(ran.stdout == expected, "{}\n{}", difference(&expected, &ran.stdout), ran.stderr_text());
    ensure!(ran.code == Some(status), "its status is {:?} and not {status}\n{}", ran.code, ran.stderr_text());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else if !["case.json", "expected.stdout", "expected.status"].iter().any(|name| target.ends_with(name)) {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

//! QuickJS-NG's own tests, from the crate with the sources that the JavaScript runtime is built from.
//!
//! The tests are written for the engine's test runner. `adapter.mjs` replaces the runner: it provides the runner's
//! functions and starts each test as a script or as a module. A test whose head names an error must end with that
//! error.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Kit, Report, sources_of};
use libtest_mimic::{Completion, Failed, Trial};

use crate::{Shared, completion, unavailable};

mod edits;

/// Crate, and the folder of the engine's sources in it.
const CRATE: (&str, &str) = ("rquickjs-sys", "quickjs");

/// Additional files beside the tests.
const HARNESS_FILES: [(&str, &str); 3] = [
    ("adapter.mjs", include_str!("quickjs/adapter.mjs")),
    ("libc.mjs", include_str!("quickjs/libc.mjs")),
    ("package.json", r#"{"type": "module"}"#),
];

/// Tests that fail, each with the reason.
const KNOWN_FAILURES: [(&str, &str); 5] = [
    ("import-attributes-identity", "imports text with `type: \"text\"`, which Node refuses too"),
    ("parse-error-column", "an error of syntax in text that is given to eval is reported at the call, as in V8"),
    ("test_bjson", "tests quickjs-libc's module qjs:bjson, which programs do not get"),
    ("test_std", "tests quickjs-libc's files, processes and signals, in whose place Node's modules are"),
    ("test_worker", "tests quickjs-libc's threads; a guest has none"),
];

/// Expected end of a test, according to its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedEnd<'a> {
    Success,
    /// An uncaught error of this name.
    Error(&'a str),
    /// A loop of hours, which a time limit must end.
    Timeout,
}

impl<'a> ExpectedEnd<'a> {
    fn from_header(text: &'a str) -> Self {
        let head = text.split_once("/*---").and_then(|(_, rest)| rest.split_once("---*/")).map_or("", |(head, _)| head);
        if head.contains("qjs:set-interrupt-handler") {
            return Self::Timeout;
        }
        let negative = head.split_once("negative:").and_then(|(_, rest)| rest.split_once("type:"));
        negative.and_then(|(_, rest)| rest.split_whitespace().next()).map_or(Self::Success, Self::Error)
    }

    fn check(self, report: &Report) -> Result<()> {
        let (outcome, messages) = (report.outcome(), report.stderr());
        let expected = match self {
            Self::Success => "exited 0",
            Self::Error(_) => "exited 1",
            Self::Timeout => "limit wall",
        };
        ensure!(outcome == expected, "outcome is {outcome}, expected {expected}\n{messages}");
        if let Self::Error(name) = self {
            let found = report.at("/error/name");
            ensure!(found == name, "error is {found}, expected {name}\n{messages}");
        }
        Ok(())
    }
}

pub fn trials(kit: &Kit, ready: &Shared<()>) -> Result<Vec<Trial>> {
    let sources = match sources_of(CRATE.0) {
        Ok(sources) => sources.join(CRATE.1),
        Err(error) => {
            let reason = format!("{error:#}");
            return Ok(vec![Trial::ignorable_test("quickjs::sources", move || unavailable("quickjs", &reason))]);
        }
    };
    let names = names(&sources.join("tests"), "")?;
    let excluded_files = excluded_files(&sources)?;
    for (listed, _) in &KNOWN_FAILURES {
        ensure!(names.iter().any(|name| name == listed), "{} has no test {listed}", sources.display());
    }
    let trial = |name: String| {
        let (kit, ready, tests) = (kit.clone(), ready.clone(), sources.join("tests"));
        let is_test = !excluded_files.contains(&name);
        Trial::ignorable_test(format!("quickjs::{name}"), move || match &**ready {
            Err(reason) => unavailable("wasm", reason),
            Ok(()) if is_test => check_known_failure(&name, run(&kit, &tests, &name)),
            Ok(()) => Ok(Completion::ignored_with("a fixture or a benchmark, which QuickJS-NG's own list leaves out")),
        })
    };
    Ok(names.into_iter().map(trial).collect())
}

/// Judges a result. A listed test must fail: once it passes, the list is out of date.
fn check_known_failure(name: &str, result: Result<()>) -> Result<Completion, Failed> {
    match KNOWN_FAILURES.iter().find(|(known, _)| *known == name) {
        None => completion(result),
        Some((_, reason)) if result.is_err() => Ok(Completion::ignored_with(*reason)),
        Some((_, reason)) => Err(format!("test passes but is listed as failing: {reason}").into()),
    }
}

/// Lists the tests' paths below their folder, without extension, sorted.
fn names(folder: &Path, prefix: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            found.extend(names(&entry.path(), &format!("{prefix}{name}/"))?);
        } else if let Some(name) = name.strip_suffix(".js") {
            found.push(format!("{prefix}{name}"));
        }
    }
    found.sort();
    Ok(found)
}

/// Lists the files that QuickJS-NG's own settings exclude from its tests.
fn excluded_files(sources: &Path) -> Result<Vec<String>> {
    let settings = fs::read_to_string(sources.join("tests.conf")).context("read the settings of the tests")?;
    let (_, excluded) = settings.split_once("[exclude]").context("the settings of the tests exclude nothing")?;
    let names = excluded.lines().filter_map(|line| line.strip_prefix("tests/")?.strip_suffix(".js"));
    Ok(names.map(str::to_owned).collect())
}

/// Runs one test in a copy of the whole test folder.
fn run(kit: &Kit, tests: &Path, name: &str) -> Result<()> {
    let folder = kit.folder()?;
    copy(tests, &folder.path().join("tests"))?;
    for (file, text) in HARNESS_FILES {
        fs::write(folder.path().join(file), text)?;
    }
    let file = format!("tests/{name}.js");
    let text = edits::apply_edits(name, fs::read_to_string(folder.path().join(&file))?)?;
    fs::write(folder.path().join(&file), &text)?;
    let end = ExpectedEnd::from_header(&text);
    // The timeout suffices for the test to enter its loop.
    let timeout: &[&str] = if end == ExpectedEnd::Timeout { &["--timeout", "1s"] } else { &[] };
    let run = kit.run_json().args(timeout.iter().copied()).grant(folder.path(), "/work", "ro");
    let result = run.arg(folder.path().join("adapter.mjs")).arg(&file).folder(folder.path()).run()?;
    end.check(&result.report()?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

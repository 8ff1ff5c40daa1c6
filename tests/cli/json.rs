//! `--json`: exactly one document on standard output.

use crate::support::{folder, kit, run, run_in};

#[test]
fn a_run_is_one_document() {
    let ran =
        run_in(folder().path(), &["run", "--json", "-c", "import sys; print('out'); print('err', file=sys.stderr)"]);
    assert_eq!(ran.stdout_text().lines().count(), 1);
    assert!(ran.stderr.is_empty(), "{}", ran.stderr_text());
    let report = ran.report().expect("a report");
    assert_eq!((report.stdout(), report.stderr()), ("out\n", "err\n"));
    assert_eq!(report.at("/version"), 1);
    assert_eq!(report.at("/method"), "wasm");
}

#[test]
fn control_characters_are_escaped() {
    let ran = run_in(folder().path(), &["run", "--json", "-c", "print('\\x1b]52;c;x\\x07\\x9b')"]);
    assert!(!ran.stdout.contains(&0x1b) && !ran.stdout.contains(&7), "{}", ran.stdout_text());
    assert_eq!(ran.report().expect("a report").stdout(), "\u{1b}]52;c;x\u{7}\u{9b}\n");
}

#[test]
fn walls_are_told() {
    let report = run_in(folder().path(), &["run", "--json", "-c", "pass"]).report().expect("a report");
    let walls = report.at("/enforcement/walls").as_array().expect("walls").clone();
    let names: Vec<_> = walls.iter().filter_map(|wall| wall["name"].as_str()).collect();
    assert_eq!(names, ["landlock", "seccomp"]);
    let report = run_in(folder().path(), &["run", "--json", "--no-confine", "-c", "pass"]).report().expect("a report");
    let walls = report.at("/enforcement/walls").as_array().expect("walls").clone();
    assert!(!walls.is_empty() && walls.iter().all(|wall| wall["state"] == "off"), "{walls:?}");
}

#[test]
fn a_failure_is_one_document_too() {
    let ran = run(kit().codebox().args(["run", "--json", "--memory", "much", "-c", "1"]));
    let report = ran.report().expect("a report");
    assert_eq!((report.kind(), report.exit_code()), ("invalid_request", Some(125)));
    assert!(report.at("/error/hint").is_string());
}

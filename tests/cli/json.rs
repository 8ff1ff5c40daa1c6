//! `--json`: exactly one document on standard output.

use crate::support::{folder, kit, run, run_in};

#[test]
fn prints_one_document_per_run() {
    let result =
        run_in(folder().path(), &["run", "--json", "-c", "import sys; print('out'); print('err', file=sys.stderr)"]);
    assert_eq!(result.stdout_text().lines().count(), 1);
    assert!(result.stderr.is_empty(), "{}", result.stderr_text());
    let report = result.report().expect("a report");
    assert_eq!((report.stdout(), report.stderr()), ("out\n", "err\n"));
    assert_eq!(report.at("/version"), 1);
    assert_eq!(report.at("/method"), "wasm");
}

#[test]
fn escapes_control_characters() {
    let result = run_in(folder().path(), &["run", "--json", "-c", "print('\\x1b]52;c;x\\x07\\x9b')"]);
    assert!(!result.stdout.contains(&0x1b) && !result.stdout.contains(&7), "{}", result.stdout_text());
    assert_eq!(result.report().expect("a report").stdout(), "\u{1b}]52;c;x\u{7}\u{9b}\n");
}

#[test]
fn reports_sandbox_layers() {
    let report = run_in(folder().path(), &["run", "--json", "-c", "pass"]).report().expect("a report");
    let layers = report.at("/enforcement/walls").as_array().expect("sandbox layers").clone();
    let names: Vec<_> = layers.iter().filter_map(|layer| layer["name"].as_str()).collect();
    assert_eq!(names, ["landlock", "seccomp"]);
    let report = run_in(folder().path(), &["run", "--json", "--no-confine", "-c", "pass"]).report().expect("a report");
    let layers = report.at("/enforcement/walls").as_array().expect("sandbox layers").clone();
    assert!(!layers.is_empty() && layers.iter().all(|layer| layer["state"] == "off"), "{layers:?}");
}

#[test]
fn prints_one_document_on_failure() {
    let result = run(kit().codebox().args(["run", "--json", "--memory", "much", "-c", "1"]));
    let report = result.report().expect("a report");
    assert_eq!((report.kind(), report.exit_code()), ("invalid_request", Some(125)));
    assert!(report.at("/error/hint").is_string());
}

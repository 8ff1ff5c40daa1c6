//! `codebox runtime`.

use std::fs;

use insta::assert_snapshot;

use crate::support::{assert_one_line, folder, format_result, kit, run, run_in, unprepared_kit};

#[test]
fn list() {
    let result = run_in(folder().path(), &["runtime", "list"]);
    let columns = result.stdout_text().split_whitespace().collect::<Vec<_>>().join(" ");
    let canonical = kit().home().canonicalize().expect("home exists");
    let columns = codebox_testkit::redact(&columns, &[(&canonical, "HOME"), (kit().home(), "HOME")]);
    assert_snapshot!(columns);
}

#[test]
fn lists_runtimes_before_install() {
    let empty = folder();
    let result = run(unprepared_kit().codebox().home(empty.path()).args(["runtime", "list"]));
    assert!(result.code == Some(0) && result.stdout_text().contains("not installed"), "{}", result.stdout_text());
}

#[test]
fn verifies_runtime() {
    let result = run_in(folder().path(), &["runtime", "verify"]);
    assert_eq!(result.code, Some(0), "{}", result.stdout_text());
    assert!(result.stdout_text().starts_with("ok "), "{}", result.stdout_text());
}

#[test]
fn verify_fails_without_runtime() {
    let empty = folder();
    let result = run(unprepared_kit().codebox().home(empty.path()).args(["runtime", "verify"]));
    assert_eq!(result.code, Some(125), "{}{}", result.stdout_text(), result.stderr_text());
}

#[test]
fn removing_absent_entry_succeeds() {
    let empty = folder();
    let result = run(unprepared_kit().codebox().home(empty.path()).args(["runtime", "remove"]));
    assert_snapshot!(format_result(&result, &[(empty.path(), "HOME")]));
}

#[test]
fn rejects_unpinned_runtime_file() {
    let dir = folder();
    let wheel = dir.path().join("wrong.whl");
    fs::write(&wheel, b"PK\x05\x06 not the package").expect("a file");
    let home = dir.path().join("home");
    let install = unprepared_kit().codebox().home(&home).args(["runtime", "install", "--from"]).arg(&wheel);
    let result = run(install);
    assert_one_line(&result, 125, "wrong.whl");
    assert!(result.stderr_text().contains("sha256"), "{}", result.stderr_text());
    let remaining = fs::read_dir(home.join("data/runtimes")).map_or(0, Iterator::count);
    assert_eq!(remaining, 0, "an incomplete entry is left behind");
}

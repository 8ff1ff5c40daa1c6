//! `codebox runtime`.

use std::fs;

use insta::assert_snapshot;

use crate::support::{assert_one_line, bare_kit, folder, kit, run, run_in, shown};

#[test]
fn list() {
    let ran = run_in(folder().path(), &["runtime", "list"]);
    let columns = ran.stdout_text().split_whitespace().collect::<Vec<_>>().join(" ");
    let canonical = kit().home().canonicalize().expect("the home is there");
    let columns = codebox_testkit::redact(&columns, &[(&canonical, "HOME"), (kit().home(), "HOME")]);
    assert_snapshot!(columns);
}

#[test]
fn list_without_any() {
    let empty = folder();
    let ran = run(bare_kit().codebox().home(empty.path()).args(["runtime", "list"]));
    assert!(ran.code == Some(0) && ran.stdout_text().contains("not installed"), "{}", ran.stdout_text());
}

#[test]
fn verify() {
    let ran = run_in(folder().path(), &["runtime", "verify"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout_text());
    assert!(ran.stdout_text().starts_with("ok "), "{}", ran.stdout_text());
}

#[test]
fn verify_without_any_fails() {
    let empty = folder();
    let ran = run(bare_kit().codebox().home(empty.path()).args(["runtime", "verify"]));
    assert_eq!(ran.code, Some(125), "{}{}", ran.stdout_text(), ran.stderr_text());
}

#[test]
fn removing_what_is_not_there_is_no_failure() {
    let empty = folder();
    let ran = run(bare_kit().codebox().home(empty.path()).args(["runtime", "remove"]));
    assert_snapshot!(shown(&ran, &[(empty.path(), "HOME")]));
}

#[test]
fn another_file_than_the_pinned_one_is_refused() {
    let place = folder();
    let wheel = place.path().join("wrong.whl");
    fs::write(&wheel, b"PK\x05\x06 not the package").expect("a file");
    let home = place.path().join("home");
    let install = bare_kit().codebox().home(&home).args(["runtime", "install", "--from"]).arg(&wheel);
    let ran = run(install);
    assert_one_line(&ran, 125, "wrong.whl");
    assert!(ran.stderr_text().contains("sha256"), "{}", ran.stderr_text());
    let left = fs::read_dir(home.join("data/runtimes")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "something half-done is left");
}

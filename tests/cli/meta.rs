//! Commands about codebox itself.

use insta::assert_snapshot;

use crate::support::{bare_kit, folder, kit, run, run_in, shown_in};

#[test]
fn help() {
    assert_snapshot!("help", shown_in(folder().path(), &["--help"]));
    assert_snapshot!("help-run", shown_in(folder().path(), &["run", "--help"]));
}

#[test]
fn no_arguments_is_a_mistake_that_shows_the_help() {
    let ran = run_in(folder().path(), &[]);
    assert_eq!(ran.code, Some(125));
    assert!(ran.stdout.is_empty() && ran.stderr_text().contains("Usage: codebox"), "{}", ran.stderr_text());
}

#[test]
fn version() {
    let ran = run_in(folder().path(), &["--version"]);
    assert_eq!(ran.code, Some(0));
    assert_eq!(ran.stdout_text(), format!("codebox {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = run_in(folder().path(), &["completions", shell]);
        assert_eq!(ran.code, Some(0), "{shell}");
        assert!(ran.stdout_text().contains("isolation") && ran.stderr.is_empty(), "{shell}");
    }
}

#[test]
fn doctor_says_what_works() {
    let ran = run_in(folder().path(), &["doctor"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stdout_text());
    let told = ran.stdout_text();
    for check in ["system: ", "directories: ", "runtime python: ", "OS sandbox: "] {
        assert!(told.contains(check), "{told}");
    }
}

#[test]
fn doctor_without_a_runtime_says_how_to_get_one() {
    let empty = folder();
    let ran = run(bare_kit().codebox().home(empty.path()).arg("doctor"));
    let told = ran.stdout_text();
    assert!(told.contains("codebox runtime install"), "{told}");
}

#[test]
fn the_reference_is_markdown() {
    let ran = run_in(folder().path(), &["help-markdown"]);
    assert!(ran.stdout_text().starts_with("# ") && ran.code == Some(0), "{}", ran.stdout_text());
}

#[test]
fn nothing_needs_a_home_that_is_not_asked_for() {
    let ran = run(kit().codebox().home(std::path::Path::new("")).arg("--version"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr_text());
}

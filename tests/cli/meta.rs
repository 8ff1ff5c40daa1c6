//! Commands about codebox itself.

use insta::assert_snapshot;

use crate::support::{folder, kit, run, run_and_format, run_in, unprepared_kit};

#[test]
fn prints_help() {
    assert_snapshot!("help", run_and_format(folder().path(), &["--help"]));
    assert_snapshot!("help-run", run_and_format(folder().path(), &["run", "--help"]));
}

#[test]
fn shows_help_without_arguments() {
    let result = run_in(folder().path(), &[]);
    assert_eq!(result.code, Some(125));
    assert!(result.stdout.is_empty() && result.stderr_text().contains("Usage: codebox"), "{}", result.stderr_text());
}

#[test]
fn prints_version() {
    let result = run_in(folder().path(), &["--version"]);
    assert_eq!(result.code, Some(0));
    assert_eq!(result.stdout_text(), format!("codebox {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn generates_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let result = run_in(folder().path(), &["completions", shell]);
        assert_eq!(result.code, Some(0), "{shell}");
        assert!(result.stdout_text().contains("isolation") && result.stderr.is_empty(), "{shell}");
    }
}

#[test]
fn doctor_lists_checks() {
    let result = run_in(folder().path(), &["doctor"]);
    assert_eq!(result.code, Some(0), "{}", result.stdout_text());
    let listing = result.stdout_text();
    for check in ["system: ", "directories: ", "runtime python: ", "OS sandbox: "] {
        assert!(listing.contains(check), "{listing}");
    }
}

#[test]
fn doctor_suggests_runtime_install() {
    let empty = folder();
    let result = run(unprepared_kit().codebox().home(empty.path()).arg("doctor"));
    let listing = result.stdout_text();
    assert!(listing.contains("codebox runtime install"), "{listing}");
}

#[test]
fn prints_reference_as_markdown() {
    let result = run_in(folder().path(), &["help-markdown"]);
    assert!(result.stdout_text().starts_with("# ") && result.code == Some(0), "{}", result.stdout_text());
}

#[test]
fn version_needs_no_home() {
    let result = run(kit().codebox().home(std::path::Path::new("")).arg("--version"));
    assert_eq!(result.code, Some(0), "{}", result.stderr_text());
}

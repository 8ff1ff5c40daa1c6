//! Programs from the package registries that this machine is configured for.

use std::process::Command;

/// Returns true if tests use the registries: `CODEBOX_REAL` names `pypi`.
#[must_use]
pub fn has_registries() -> bool {
    std::env::var("CODEBOX_REAL").is_ok_and(|names| names.split(',').any(|name| name == "pypi"))
}

/// Runs a command that must succeed, and returns its output.
///
/// # Panics
/// Panics if the command cannot be started or fails, with its standard error.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

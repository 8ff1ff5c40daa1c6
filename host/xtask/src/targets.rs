//! Check that crates compile for systems other than this one.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::project::Project;

/// Crates that compile for other systems with a Rust compiler alone. The others have parts in C, or are for Linux.
const PACKAGES: [&str; 13] = [
    "codebox-agent",
    "codebox-confine",
    "codebox-core",
    "codebox-devcontainer",
    "codebox-files",
    "codebox-service",
    "codebox-streams",
    "codebox-tools",
    "codebox-typescript",
    "codebox-vm",
    "codebox-vm-guest",
    "codebox-worker",
    "codebox-zygote",
];

/// Targets, and the crates that compile for them in addition.
const TARGETS: [(&str, &[&str]); 2] = [
    ("x86_64-pc-windows-gnu", &["codebox-analysis", "codebox-sessions"]),
    ("aarch64-apple-darwin", &["codebox-testkit"]),
];

/// Checks the crates, without warnings. A target whose standard library cannot be installed is named and left out.
///
/// # Errors
/// Fails if cargo cannot be started, or if a crate does not compile.
pub fn run() -> Result<()> {
    let project = Project::find()?;
    let mut failed = Vec::new();
    for (target, more) in TARGETS {
        let mut add = Command::new("rustup");
        add.args(["target", "add", target]).current_dir(&project.root).stdout(Stdio::null());
        if !add.status().is_ok_and(|status| status.success()) {
            println!("{target} is not checked: rustup cannot install its standard library");
            continue;
        }
        let mut check = project.cargo();
        check.args(["check", "--release", "--target", target]).env("RUSTFLAGS", "-D warnings");
        check.args(PACKAGES.iter().chain(more).flat_map(|name| ["--package", name]));
        if !check.status().context("start cargo")?.success() {
            failed.push(target);
        }
    }
    ensure!(failed.is_empty(), "crates do not compile for {}", failed.join(", "));
    Ok(())
}

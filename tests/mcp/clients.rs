//! The official clients, from the package registries that this machine is configured for.

use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_testkit::{has_registries, succeed};

use crate::client::kit;

/// Versions of the clients: of the one in Python, both major versions in use.
const PYTHON: [&str; 2] = ["mcp==2.3.0", "mcp==1.30.0"];
const TYPESCRIPT: &str = "@modelcontextprotocol/sdk@1.32.2";

/// Version of the conformance tests.
const CONFORMANCE: &str = "@modelcontextprotocol/conformance@0.1.16";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp").join(name)
}

#[track_caller]
fn check(command: &mut Command) {
    let folder = kit().folder().expect("a directory");
    let home = folder.path().join("home");
    kit().share_runtimes(&home).expect("shared runtimes");
    let ran = succeed(command.env("CODEBOX_HOME", &home).env("CODEBOX_HOST", "off").env("CODEBOX", kit().binary()));
    assert!(ran.ends_with("passed\n"), "{ran}");
    let _ = kit().codebox().home(&home).args(["session", "end"]).run();
}

#[test]
fn python_clients_pass() {
    if !has_registries() {
        return;
    }
    for package in PYTHON {
        let folder = kit().folder().expect("a directory");
        let venv = folder.path().join("venv");
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let python = venv.join("bin/python");
        succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", package]));
        check(Command::new(&python).arg(source("client.py")));
    }
}

/// Installs packages of npm with a program, and returns their directory.
fn installed(packages: &[&str], program: &str) -> tempfile::TempDir {
    let folder = kit().folder().expect("a directory");
    std::fs::write(folder.path().join("package.json"), "{\"type\":\"module\"}").expect("it is ours");
    let install = ["install", "--silent", "--no-audit", "--no-fund"];
    succeed(Command::new("npm").args(install).args(packages).current_dir(folder.path()));
    // Modules are found from the directory of the program.
    std::fs::copy(source(program), folder.path().join(program)).expect("it is ours");
    folder
}

#[test]
fn typescript_client_passes() {
    if !has_registries() {
        return;
    }
    let folder = installed(&[TYPESCRIPT], "client.mjs");
    check(Command::new("node").arg("client.mjs").current_dir(folder.path()));
}

#[test]
fn conformance_scenarios_pass() {
    if !has_registries() {
        return;
    }
    // The program needs a later Node than others.
    let folder = installed(&[TYPESCRIPT, CONFORMANCE, "node@22"], "conformance.mjs");
    let node = folder.path().join("node_modules/.bin/node");
    check(Command::new(node).arg("conformance.mjs").current_dir(folder.path()));
}

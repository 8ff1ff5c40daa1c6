//! Expectations of `tests/fixtures/typescript`, regenerated with npm's `typescript` and this machine's Node.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use codebox_testkit::{Kit, corpus_dir};
use libtest_mimic::{Completion, Failed, Trial};

use super::guest_runner::has_node;
use super::{completion, unavailable};

/// Compiler that produced the expectations.
const COMPILER: &str = "typescript@5.9.3";

pub fn trials(kit: &Kit) -> Vec<Trial> {
    let kit = kit.clone();
    vec![Trial::ignorable_test("typescript::expectations", move || expectations(&kit))]
}

fn expectations(kit: &Kit) -> Result<Completion, Failed> {
    if !has_node() {
        return unavailable("node", "this machine has no Node");
    }
    let folder = kit.folder().map_err(|error| format!("{error:#}"))?;
    let install = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", ".", COMPILER];
    let installed = Command::new("npm").args(install).current_dir(folder.path()).output();
    if !installed.is_ok_and(|done| done.status.success()) {
        return unavailable("npm", "npm cannot install the TypeScript compiler");
    }
    completion(compare(folder.path()))
}

fn compare(packages: &std::path::Path) -> Result<()> {
    let script = corpus_dir("typescript").join("expect.mjs");
    let result = Command::new("node").arg(script).arg("--check").arg(packages).env("NO_COLOR", "1").output();
    let result = result.context("no node")?;
    ensure!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Ok(())
}

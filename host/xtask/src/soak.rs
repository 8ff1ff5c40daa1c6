//! Long forms of the reliability tests.
//!
//! A reliability test has one body and two lengths: the short one runs in every `cargo test`, and `CODEBOX_SOAK=1` in
//! the environment selects the long one.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::project::{Project, output_of};

/// Folders whose test targets have a long form.
const FOLDERS: [&str; 4] = ["tests/reliability", "tests/containers", "tests/workers", "tests/sessions"];

/// Default of `CODEBOX_REQUIRE`.
const REQUIRE: &str = "wasm";

/// Arguments of `soak`.
#[derive(Args)]
pub struct Options {
    /// Run only this test target, or only the tests whose names contain this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// List the test targets and run nothing
    #[arg(long)]
    list: bool,
    /// Run the fuzz targets instead
    #[arg(long, conflicts_with = "list")]
    fuzz: bool,
    /// Time that each fuzz target runs
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, requires = "fuzz")]
    fuzz_seconds: u64,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: String,
}

/// Runs every reliability target in its long form, one after the other.
///
/// # Errors
/// Fails if no target matches or any target fails; a failed target does not stop the others.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    if options.fuzz {
        return crate::fuzz::run(&project, options.fuzz_seconds, options.only.as_deref());
    }
    let mut names = targets(&project)?;
    ensure!(!names.is_empty(), "no test target lies below {}", FOLDERS.join(" or "));
    if options.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let filter = match &options.only {
        Some(only) if names.contains(only) => {
            names = vec![only.clone()];
            None
        }
        only => only.as_ref(),
    };
    let mut failed = Vec::new();
    for name in names {
        let began = Instant::now();
        let mut test = project.cargo();
        test.args(["test", "--release", "--workspace", "--test", &name]).env("CODEBOX_SOAK", "1");
        if std::env::var_os("CODEBOX_REQUIRE").is_none() {
            test.env("CODEBOX_REQUIRE", REQUIRE);
        }
        // Without output, a run of hours cannot be distinguished from a hang.
        test.arg("--").args(filter).arg("--nocapture");
        let passed = test.status().context("start cargo")?.success();
        println!("soak: {name} {} in {:.0?}", if passed { "passed" } else { "FAILED" }, began.elapsed());
        if !passed {
            failed.push(name);
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Lists the names of the workspace's test targets below the folders, sorted and without duplicates.
fn targets(project: &Project) -> Result<Vec<String>> {
    let text = output_of(project.cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Metadata = serde_json::from_str(&text).context("parse the output of cargo metadata")?;
    let folders = FOLDERS.map(|folder| project.root.join(folder));
    let mut names: Vec<String> = metadata
        .packages
        .into_iter()
        .flat_map(|package| package.targets)
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .filter(|target| folders.iter().any(|folder| Path::new(&target.src_path).starts_with(folder)))
        .map(|target| target.name)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

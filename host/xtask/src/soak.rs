//! The long forms of the reliability tests.
//!
//! A reliability test has one body and two lengths: the short one runs in every `cargo test`, the long one where the
//! environment says `CODEBOX_SOAK=1`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::project::{Project, output_of};

/// The folders whose test targets have a long form.
const FOLDERS: [&str; 2] = ["tests/reliability", "tests/containers"];

/// What has to be there, where the environment does not say.
const REQUIRE: &str = "wasm";

/// How `soak` is called.
#[derive(Args)]
pub struct Options {
    /// Run only this test target, or only the tests whose names contain this
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Say which test targets there are and run nothing
    #[arg(long)]
    list: bool,
    /// Run the fuzz targets instead
    #[arg(long, conflicts_with = "list")]
    fuzz: bool,
    /// How long each fuzz target runs
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
/// When there is none, or when any of them fails; the others are run all the same.
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
        // Hours of silence cannot be told from a hang.
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

/// The names of the workspace's test targets below the folders, each once, in order.
fn targets(project: &Project) -> Result<Vec<String>> {
    let text = output_of(project.cargo().args(["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Metadata = serde_json::from_str(&text).context("read what cargo says of the workspace")?;
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

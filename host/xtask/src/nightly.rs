//! Full form of the tests: everything on both container engines.

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::project::Project;

/// Default of `CODEBOX_REQUIRE`.
const REQUIRE: &str = "wasm,podman,docker";

/// Arguments of `nightly`.
#[derive(Args)]
pub struct Options {
    /// Run the tests of guests' memory in Miri instead, which needs a nightly toolchain with that component
    #[arg(long, conflicts_with = "only")]
    miri: bool,
    /// Run only this test target
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// Runs all tests in their full form.
///
/// # Errors
/// Fails if cargo cannot be started or a test fails.
pub fn run(options: &Options) -> Result<()> {
    let project = Project::find()?;
    if options.miri {
        return run_miri(&project);
    }
    let mut test = project.cargo();
    test.args(["test", "--release", "--workspace", "--no-fail-fast"]).env("CODEBOX_TESTS", "full");
    if let Some(name) = &options.only {
        test.args(["--test", name]);
    }
    if std::env::var_os("CODEBOX_REQUIRE").is_none() {
        test.env("CODEBOX_REQUIRE", REQUIRE);
    }
    ensure!(test.status().context("start cargo")?.success(), "tests failed");
    Ok(())
}

/// Runs the tests of regions and stacks in Miri, with address space on the heap in place of the system's.
fn run_miri(project: &Project) -> Result<()> {
    let mut test = std::process::Command::new("rustup");
    test.args(["run", "nightly", "cargo", "miri", "test", "--package", "codebox-wasm", "--lib", "region"]);
    // The image of a region is a file.
    test.current_dir(&project.root).env("MIRIFLAGS", "-Zmiri-disable-isolation");
    test.env("CARGO_TARGET_DIR", project.target.join("miri"));
    // The toolchain that runs this program would take precedence.
    for name in ["CARGO", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTDOC"] {
        test.env_remove(name);
    }
    ensure!(test.status().context("start rustup")?.success(), "Miri found an error");
    Ok(())
}

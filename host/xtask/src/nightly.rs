//! Full form of the tests: everything on both container engines, and all of the most used packages.

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::project::Project;

/// Default of `CODEBOX_REQUIRE`.
const REQUIRE: &str = "wasm,podman,docker";

/// Default of `CODEBOX_REAL`.
const REAL: &str = "pypi";

/// Test targets that also run with a host process.
const SERVED_TARGETS: [&str; 3] = ["security", "reliability", "compat"];

/// Sets of features that an embedder may choose, each to be built without the default ones.
const FEATURE_SETS: [&str; 8] = [
    "",
    "wasm",
    "compiler",
    "workers",
    "containers",
    "wasm,analysis,blocks",
    "compiler,analysis,containers,packages",
    "cli",
];

/// Arguments of `nightly`.
#[derive(Args)]
pub struct Options {
    /// Run the tests of guests' memory in Miri instead, which needs a nightly toolchain with that component
    #[arg(long, conflicts_with = "only")]
    miri: bool,
    /// Check instead that the library builds with every set of features
    #[arg(long, conflicts_with_all = ["only", "miri"])]
    features: bool,
    /// Run the tests of virtual machines in QEMU instead, with the image of `vm-image`
    #[arg(long, conflicts_with_all = ["only", "miri", "features"])]
    vm: bool,
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
    if options.features {
        return check_feature_sets(&project);
    }
    if options.vm {
        let mut test = project.cargo();
        // A machine at a time: each of them takes two processors.
        test.args(["test", "--release", "--package", "codebox-vm", "--", "--include-ignored", "--test-threads=1"]);
        ensure!(test.status().context("start cargo")?.success(), "tests of virtual machines failed");
        let mut jobs = project.cargo();
        jobs.args(["test", "--release", "--workspace", "--test", "cli", "--", "--include-ignored", "vm::"]);
        ensure!(jobs.status().context("start cargo")?.success(), "tests of jobs in virtual machines failed");
        // `CODEBOX_TESTS=full` selects the whole list.
        let mut list = project.cargo();
        list.args(["test", "--release", "--workspace", "--test", "conformance"]).env("CODEBOX_REQUIRE", "vm");
        list.args(["--", "--test-threads=1", "vm::"]);
        ensure!(list.status().context("start cargo")?.success(), "programs in virtual machines failed");
        let mut bench = project.cargo();
        bench.args(["bench", "--workspace", "--bench", "machine"]);
        ensure!(bench.status().context("start cargo")?.success(), "measurements of virtual machines failed");
        return Ok(());
    }
    let mut test = project.cargo();
    test.args(["test", "--release", "--workspace", "--no-fail-fast"]).env("CODEBOX_TESTS", "full");
    if let Some(name) = &options.only {
        test.args(["--test", name]);
    }
    for (name, default) in [("CODEBOX_REQUIRE", REQUIRE), ("CODEBOX_REAL", REAL)] {
        if std::env::var_os(name).is_none() {
            test.env(name, default);
        }
    }
    let passed = test.status().context("start cargo")?.success();
    if options.only.is_none() {
        // The same list of hostile and other programs, in workers of a host process.
        let mut served = project.cargo();
        served.args(["test", "--release", "--workspace", "--no-fail-fast"]).env("CODEBOX_TEST_HOST", "on");
        served.args(SERVED_TARGETS.iter().flat_map(|name| ["--test", name]));
        ensure!(served.status().context("start cargo")?.success(), "tests with a host process failed");
    }
    ensure!(passed, "tests failed");
    Ok(())
}

/// Checks that the library and its examples build without warnings with every set of features.
fn check_feature_sets(project: &Project) -> Result<()> {
    for features in FEATURE_SETS {
        let mut check = project.cargo();
        check.args(["clippy", "--release", "--package", "codebox", "--lib", "--examples", "--no-default-features"]);
        check.args(["--features", features, "--", "-D", "warnings"]);
        ensure!(check.status().context("start cargo")?.success(), "cannot build with the features {features:?}");
    }
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

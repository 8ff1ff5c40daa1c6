//! Packages that are built from source, each in a separate container, on each engine.

mod hostile_sources;
mod images;
mod valid_sources;

use std::sync::{Arc, LazyLock};

use anyhow::{Result, ensure};
use codebox_testkit::{Codebox, Kit, check_engine, is_required};
use libtest_mimic::{Completion, Failed, Trial};
use tempfile::TempDir;

use crate::index::Index;

/// Engine, and a separate home for one trial.
pub struct TestEnvironment {
    pub kit: Kit,
    pub engine: &'static str,
    home: TempDir,
}

/// Name of a trial and its body.
type Case = (&'static str, fn(&TestEnvironment) -> Result<()>);

/// Lazily determined availability, or the reason why something is unavailable.
type Ready = Arc<LazyLock<Result<(), String>, Box<dyn FnOnce() -> Result<(), String> + Send>>>;

pub fn trials(kit: &Kit, wasm: &Result<(), String>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for engine in ["docker", "podman"] {
        let (kit_to_probe, wasm) = (kit.clone(), wasm.clone());
        let ready: Ready = Arc::new(LazyLock::new(Box::new(move || {
            wasm?;
            check_engine(&kit_to_probe, engine).map_err(|error| format!("{error:#}"))
        })));
        for (name, run) in valid_sources::CASES.iter().chain(hostile_sources::CASES).chain(images::CASES) {
            let (kit, ready, run) = (kit.clone(), Arc::clone(&ready), *run);
            trials.push(Trial::ignorable_test(format!("building::{engine}::{name}"), move || match &**ready {
                Err(reason) if is_required(engine) => Err(reason.as_str().into()),
                Err(reason) => Ok(Completion::ignored_with(reason)),
                Ok(()) => run_case(kit, engine, run).map_err(|e| Failed::from(format!("{e:#}"))),
            }));
        }
    }
    trials
}

fn run_case(kit: Kit, engine: &'static str, run: fn(&TestEnvironment) -> Result<()>) -> Result<Completion> {
    let home = kit.folder()?;
    kit.home_with_engine(home.path(), engine, "")?;
    run(&TestEnvironment { kit, engine, home })?;
    Ok(Completion::Completed)
}

impl TestEnvironment {
    /// Returns a command with this index and no other.
    pub fn codebox(&self, index: &Index) -> Codebox {
        let codebox = self.kit.codebox().home(self.home.path()).inherit_env().env("UV_NO_CONFIG", "1");
        codebox.env("UV_DEFAULT_INDEX", index.address.as_str()).env("NO_PROXY", "127.0.0.1")
    }

    /// Returns a run that may build packages.
    pub fn building(&self, index: &Index) -> Codebox {
        self.codebox(index).args(["run", "--json", "--build", "--engine", self.engine])
    }

    /// Returns a run of this program with that package, which may be built.
    pub fn with(&self, index: &Index, name: &str, program: &str) -> Codebox {
        self.building(index).args(["--with", name, "-c", program])
    }

    /// Writes the configuration, which starts with these settings.
    pub fn configure(&self, settings: &str) -> Result<()> {
        self.kit.home_with_engine(self.home.path(), self.engine, settings)
    }

    /// Runs `codebox packages` and returns its output.
    pub fn run_packages(&self, arguments: &[&str]) -> Result<String> {
        let shown = self.kit.codebox().home(self.home.path()).arg("packages").args(arguments.iter().copied()).run()?;
        ensure!(shown.code == Some(0), "{}", shown.stderr_text());
        Ok(shown.stdout_text())
    }

    /// Returns true if the cache contains a built package.
    pub fn has_built_packages(&self) -> bool {
        let built_dir = self.home.path().join("cache/packages/built");
        built_dir.read_dir().is_ok_and(|mut entries| entries.next().is_some())
    }
}

//! Most used pure packages, from the user's own registry.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use codebox_core::Silent;
use codebox_packages::{
    ConfigFiles, NpmEnvironment, NpmError, NpmFiles, NpmSettings, NpmSpec, NpmStore, npm_environment,
};
use libtest_mimic::Trial;

use super::guest_runner::{GuestRunner, has_node, run_in_node};
use super::table::{Row, Table};
use super::{Shared, completion, shared_value, unavailable};

/// Lists the programs, one for each package.
fn programs() -> Result<Vec<PathBuf>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/npm");
    let mut all: Vec<PathBuf> =
        fs::read_dir(&dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    all.sort();
    Ok(all)
}

/// Returns the package store of the tests, which is kept between runs.
fn store() -> NpmStore {
    NpmStore::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("npm"))
}

fn install(spec: &str) -> Result<NpmEnvironment, NpmError> {
    let home = std::env::home_dir();
    let env = |name: &str| std::env::var(name).ok();
    let settings = NpmSettings::from_user(&env, &NpmFiles::User { home }, &ConfigFiles::User)?;
    let specs: Vec<NpmSpec> = vec![spec.parse()?];
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| NpmError::Client(error.into()))?;
    executor.block_on(npm_environment(&specs, None, &settings, &store(), &Silent))
}

pub fn trials(guest_runner: &Shared<GuestRunner>) -> Result<Vec<Trial>> {
    let programs = programs()?;
    let rows: Arc<Mutex<BTreeMap<String, Row>>> = Arc::default();
    let table = Table { rows: Arc::clone(&rows), total: programs.len() };
    let mut trials = Vec::new();
    for program in programs {
        let package = program.file_stem().context("a name")?.to_string_lossy().into_owned();
        let (guest_runner, rows, table) = (guest_runner.clone(), Arc::clone(&rows), table.clone());
        trials.push(Trial::ignorable_test(format!("real::{package}"), move || {
            if !has_node() {
                return unavailable("node", "there is no node");
            }
            let environment = match install(&package) {
                Ok(environment) => environment,
                Err(error @ NpmError::Unreachable { .. }) => return unavailable("npm", &error.to_string()),
                Err(error) => return completion(Err(error.into())),
            };
            let result = shared_value(&guest_runner)
                .and_then(|guest_runner| compare_with_node(&program, &environment, guest_runner));
            let row = Row::of(&package, &environment, result.as_ref().err().map(|error| format!("{error:#}")));
            rows.lock().map_err(|_| "another trial panicked")?.insert(package.clone(), row);
            // The last trial writes the complete table.
            completion(result.and_then(|()| table.compare_or_write()))
        }));
    }
    Ok(trials)
}

fn compare_with_node(program: &Path, environment: &NpmEnvironment, guest_runner: &GuestRunner) -> Result<()> {
    ensure!(environment.native.is_empty(), "the package is native: {:?}", environment.native);
    let name = program.file_name().context("a name")?.to_string_lossy();
    let text = fs::read_to_string(program)?;
    let node = run_in_node(&name, &text, &environment.dir)?;
    ensure!(node.status == 0, "node itself failed: {}", node.stderr);
    let guest = guest_runner.run_in_guest(&name, &text, &environment.dir, None)?;
    ensure!(guest.status == 0, "{}", guest.stderr);
    ensure!(guest.stdout == node.stdout, "guest:\n{}\nnode:\n{}", guest.stdout, node.stdout);
    Ok(())
}

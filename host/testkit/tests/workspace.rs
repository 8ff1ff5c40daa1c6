//! Rules for the workspace's dependencies, checked against `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Workspace crates that each crate may depend on, without the prefix `codebox-`. Excludes development dependencies.
///
/// A new edge is a change of the architecture: docs/architecture.md describes the allowed dependencies.
const EDGES: [(&str, &[&str]); 29] = [
    ("agent", &["core"]),
    ("analysis", &["files"]),
    ("analyzer", &["analysis", "typescript"]),
    ("blocks", &["core", "runner", "service"]),
    ("cli", &["blocks", "core", "jupyter", "mcp", "runner", "service", "streams", "tools"]),
    (
        "codebox",
        &[
            "analysis",
            "blocks",
            "cli",
            "confine",
            "container",
            "core",
            "egress",
            "files",
            "packages",
            "runner",
            "runtimes",
            "service",
            "sessions",
            "tools",
            "vm",
            "wasm",
            "worker",
            "zygote",
        ],
    ),
    ("confine", &["core"]),
    ("container", &["agent", "analysis", "core", "egress", "files", "streams"]),
    ("core", &[]),
    ("devcontainer", &["core", "files"]),
    ("egress", &["core"]),
    ("files", &["core"]),
    ("jupyter", &["blocks", "core", "runner"]),
    ("mcp", &["blocks", "core", "files", "runner", "service", "tools"]),
    ("packages", &["core", "files", "service"]),
    ("runner", &["analysis", "core", "devcontainer", "files", "service", "streams", "tools"]),
    ("runtimes", &["core", "files", "packages", "service", "wasm"]),
    ("service", &["analysis", "core", "files"]),
    ("sessions", &["core", "files", "runner", "service", "worker"]),
    ("streams", &["core"]),
    ("testkit", &["core"]),
    ("tools", &["core"]),
    ("typescript", &[]),
    ("vm", &["core", "files", "vm-guest"]),
    ("vm-guest", &[]),
    ("wasm", &["analysis", "core", "egress", "files", "streams"]),
    ("worker", &["core", "files", "streams"]),
    ("xtask", &["testkit", "vm"]),
    ("zygote", &[]),
];

/// Crates whose older versions have known vulnerabilities, each with its minimum version.
const MIN_VERSIONS: [(&str, (u64, u64, u64)); 5] = [
    ("cap-std", (4, 0, 3)),
    ("tar", (0, 4, 45)),
    ("wasmtime", (48, 0, 8)),
    ("wasmtime-wasi", (48, 0, 8)),
    ("zip", (8, 0, 0)),
];

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--no-deps", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    serde_json::from_slice(&metadata.stdout).expect("cargo prints JSON")
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn short_name(name: &str) -> &str {
    name.strip_prefix("codebox-").unwrap_or(name)
}

#[test]
fn crate_dependencies_match_architecture() {
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let edges: BTreeMap<&str, BTreeSet<&str>> = packages
        .iter()
        .map(|package| {
            let used = list(package, "dependencies").iter().filter(|dependency| dependency["kind"] != "dev");
            let used = used.filter_map(|dependency| dependency["name"].as_str()).filter(|name| names.contains(name));
            (short_name(package["name"].as_str().unwrap_or_default()), used.map(short_name).collect())
        })
        .collect();
    let expected = EDGES.map(|(name, used)| (name, used.iter().copied().collect())).into();
    assert_eq!(edges, expected);
}

#[test]
fn dependencies_meet_minimum_versions() {
    for (name, min_version) in MIN_VERSIONS {
        let versions = locked_versions(name);
        assert!(!versions.is_empty(), "{name} is no longer a dependency: remove it from the list");
        for version in versions {
            assert!(parsed(&version) >= Some(min_version), "{name} {version}");
        }
    }
}

/// Guests are stopped by the layout of the engine's state, which the second package describes.
#[test]
fn layout_is_that_of_the_engine() {
    let [engine, layout] = ["wasmtime", "wasmtime-environ"].map(locked_versions);
    assert_eq!(engine.len(), 1, "several versions of the engine: {engine:?}");
    assert_eq!(engine, layout);
}

/// Returns the versions of a package in the lock file. It has every version; cargo would have to fetch the packages of
/// other systems to list them.
fn locked_versions(name: &str) -> Vec<String> {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).expect("a lock file");
    let packages = lock.split("[[package]]").filter(|package| package.contains(&format!("\nname = \"{name}\"\n")));
    let version = |package: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix("version = "))?;
        Some(line.trim_matches('"').to_owned())
    };
    packages.filter_map(version).collect()
}

/// Parses major, minor and patch of a version.
fn parsed(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

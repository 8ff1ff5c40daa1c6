//! Software bill of materials, in the format CycloneDX 1.5.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::project::{Project, output_of};

/// A component of an installation.
pub(super) struct Component {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    /// The package's address in the scheme of package URLs.
    pub url: String,
    /// The sources' directory, with the texts of licences.
    pub sources: Option<PathBuf>,
}

/// Output of `cargo metadata`, as far as it is needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

/// The description of a runtime, as far as it is needed.
#[derive(Deserialize)]
struct Runtime {
    name: String,
    licence: String,
    package: Option<RuntimePackage>,
    built_in: Option<BuiltIn>,
    #[serde(default)]
    packages: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RuntimePackage {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct BuiltIn {
    version: String,
}

/// Runtimes in an installation.
const RUNTIMES: [&str; 2] = ["python", "javascript"];

/// Returns the crates that the programs are linked with, the runtimes, and the packages in their libraries.
pub(super) fn components(project: &Project) -> Result<Vec<Component>> {
    let mut components = crates(project)?;
    components.extend(linked_libraries()?);
    for name in RUNTIMES {
        let file = project.root.join("guest-runtimes").join(name).join("runtime.toml");
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let runtime: Runtime = toml::from_str(&text).with_context(|| format!("read {}", file.display()))?;
        if let Some(package) = runtime.package {
            components.push(of_index(package.name, package.version, Some(runtime.licence.clone())));
        }
        if let Some(built_in) = runtime.built_in {
            let url = format!("pkg:generic/{}@{}", runtime.name, built_in.version);
            let licence = Some(runtime.licence);
            components.push(Component { name: runtime.name, version: built_in.version, licence, url, sources: None });
        }
        components.extend(runtime.packages.into_iter().map(|(name, version)| of_index(name, version, None)));
    }
    Ok(components)
}

/// Returns the libraries that are linked into the programs and are not crates.
fn linked_libraries() -> Result<Vec<Component>> {
    let glibc = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let glibc = glibc.trim().strip_prefix("glibc ").context("the C library is not glibc")?.to_owned();
    let rust = output_of(Command::new("rustc").arg("--version"))?;
    let rust = rust.split(' ').nth(1).context("rustc prints no version")?.to_owned();
    let component = |name: &str, version: String, licence: &str| Component {
        name: name.to_owned(),
        url: format!("pkg:generic/{name}@{version}"),
        version,
        licence: Some(licence.to_owned()),
        sources: None,
    };
    Ok(vec![component("glibc", glibc, "LGPL-2.1-or-later"), component("rust-std", rust, "MIT OR Apache-2.0")])
}

/// Describes a package of the Python package index.
fn of_index(name: String, version: String, licence: Option<String>) -> Component {
    let url = format!("pkg:pypi/{name}@{version}");
    Component { name, version, licence, url, sources: None }
}

/// Returns the crates that are linked into the programs on this system.
fn crates(project: &Project) -> Result<Vec<Component>> {
    let mut cargo = project.cargo();
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host]);
    let metadata: Metadata =
        serde_json::from_str(&output_of(&mut cargo)?).context("read the output of cargo metadata")?;
    let nodes: HashMap<&str, &Node> = metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let root = metadata.packages.iter().find(|package| package.name == "codebox").context("no package codebox")?;
    let mut linked = HashSet::new();
    let mut next = vec![root.id.as_str()];
    while let Some(id) = next.pop() {
        if !linked.insert(id) {
            continue;
        }
        let is_linked = |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let node = nodes.get(id).with_context(|| format!("no node for {id}"))?;
        next.extend(node.deps.iter().filter(is_linked).map(|dependency| dependency.pkg.as_str()));
    }
    let mut crates: Vec<_> = metadata
        .packages
        .iter()
        // The crates of codebox have no source.
        .filter(|package| linked.contains(package.id.as_str()) && package.source.is_some())
        .map(|package| Component {
            name: package.name.clone(),
            version: package.version.clone(),
            // The older form of cargo.
            licence: package.license.as_ref().map(|licence| licence.replace('/', " OR ")),
            // Build metadata in a version starts with a plus sign.
            url: format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B")),
            sources: package.manifest_path.parent().map(PathBuf::from),
        })
        .collect();
    crates.sort_by(|one, other| one.url.cmp(&other.url));
    Ok(crates)
}

/// Returns the document as JSON.
pub(super) fn document(project: &Project, components: &[Component]) -> Result<Vec<u8>> {
    let version = super::version(project)?;
    let listed: Vec<Value> = components
        .iter()
        .map(|component| {
            let mut listed = json!({
                "type": "library",
                "bom-ref": component.url,
                "name": component.name,
                "version": component.version,
                "purl": component.url,
            });
            if let Some(licence) = &component.licence {
                listed["licenses"] = json!([{ "expression": licence }]);
            }
            listed
        })
        .collect();
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "codebox", "version": version } },
        "components": listed,
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

//! Packages in the files of Python projects: `pyproject.toml`, `uv.lock` and `pylock.toml`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;
use uv_normalize::PackageName;

use crate::requirement::Requirement;
use crate::requirements_file::{ListedRequirements, MAX_REQUIREMENTS};

/// Most steps from package to package in a lock.
const MAX_STEPS: usize = 20_000;

/// Most markers under which one package is listed.
const MAX_MARKERS: usize = 4;

/// The `[project]` table of a `pyproject.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PythonProject {
    /// The requirements; `None` if the table does not list them.
    pub dependencies: Option<Vec<Requirement>>,
    /// The supported versions of Python.
    pub requires_python: Option<String>,
}

#[derive(Deserialize)]
struct PyProject {
    project: Option<ProjectTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ProjectTable {
    dependencies: Option<Vec<String>>,
    requires_python: Option<String>,
    #[serde(default)]
    dynamic: Vec<String>,
}

/// Returns the first line of an error's message.
fn first_line(error: &toml::de::Error) -> String {
    error.message().lines().next().unwrap_or_default().to_owned()
}

/// Parses a `pyproject.toml`.
///
/// # Errors
/// A message for text that is not TOML, or a requirement that is refused.
pub fn parse_pyproject(text: &str) -> Result<PythonProject, String> {
    let parsed: PyProject = toml::from_str(text).map_err(|error| first_line(&error))?;
    let Some(ProjectTable { dependencies, requires_python, dynamic }) = parsed.project else {
        return Ok(PythonProject::default());
    };
    let listed = match dependencies {
        None if dynamic.iter().any(|name| name == "dependencies") => None,
        listed => Some(listed.unwrap_or_default()),
    };
    let parse = |texts: Vec<String>| {
        texts.iter().map(|text| text.parse::<Requirement>().map_err(|error| error.to_string())).collect()
    };
    Ok(PythonProject { dependencies: listed.map(parse).transpose()?, requires_python })
}

/// A `uv.lock`, as far as it is read.
#[derive(Deserialize)]
struct UvLock {
    #[serde(default)]
    package: Vec<UvPackage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UvPackage {
    name: String,
    version: Option<String>,
    #[serde(default)]
    source: toml::Table,
    #[serde(default)]
    dependencies: Vec<UvDependency>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<UvDependency>>,
    #[serde(default)]
    wheels: Vec<UvFile>,
    sdist: Option<UvFile>,
}

#[derive(Deserialize)]
struct UvDependency {
    name: String,
    version: Option<String>,
    marker: Option<String>,
    #[serde(default)]
    extra: Vec<String>,
}

#[derive(Deserialize)]
struct UvFile {
    hash: Option<String>,
}

/// Parses a `uv.lock`, and returns the exact packages that the project itself requires, with their hashes.
///
/// # Errors
/// A message for a file that is not a lock of uv, without the project itself, or with a package that is not in an index.
pub fn parse_uv_lock(text: &str) -> Result<ListedRequirements, String> {
    let lock: UvLock = toml::from_str(text).map_err(|error| first_line(&error))?;
    let is_root = |package: &&UvPackage| {
        ["virtual", "editable"].iter().any(|kind| package.source.get(*kind).and_then(toml::Value::as_str) == Some("."))
    };
    let root = lock.package.iter().find(is_root).ok_or("it does not contain the project itself")?;
    let mut pins = Pins::default();
    let mut pending: VecDeque<(&UvDependency, Option<String>)> =
        root.dependencies.iter().map(|dependency| (dependency, None)).collect();
    let mut seen: BTreeMap<_, BTreeSet<Option<String>>> = BTreeMap::new();
    let mut steps = 0;
    while let Some((dependency, outer)) = pending.pop_front() {
        steps += 1;
        if steps > MAX_STEPS {
            return Err("it has too many dependencies".to_owned());
        }
        let marker = both(outer.as_deref(), dependency.marker.as_deref());
        let is_wanted = |package: &&UvPackage| {
            package.name == dependency.name && (dependency.version.is_none() || package.version == dependency.version)
        };
        let package = lock.package.iter().find(is_wanted).ok_or(format!("it lacks {}", dependency.name))?;
        let key = (package.name.as_str(), package.version.as_deref(), dependency.extra.clone());
        let markers = seen.entry(key).or_default();
        // Markers grow along a cycle of packages. A package that is reached in many ways is installed in any case.
        let marker = marker.filter(|_| markers.len() < MAX_MARKERS);
        if markers.contains(&None) || !markers.insert(marker.clone()) {
            continue;
        }
        let is_indexed = package.source.contains_key("registry");
        let version = package.version.as_deref().filter(|_| is_indexed);
        let version = version.ok_or_else(|| format!("{} is not in an index", package.name))?;
        let hashes = package.wheels.iter().chain(&package.sdist).filter_map(|file| file.hash.as_deref());
        pins.add(&package.name, version, marker.as_deref(), hashes)?;
        let extras = dependency.extra.iter().filter_map(|extra| package.optional_dependencies.get(extra)).flatten();
        pending.extend(package.dependencies.iter().chain(extras).map(|next| (next, marker.clone())));
    }
    Ok(pins.listed)
}

/// A `pylock.toml`, as far as it is read.
#[derive(Deserialize)]
struct PyLock {
    #[serde(default)]
    packages: Vec<PyLockPackage>,
}

#[derive(Deserialize)]
struct PyLockPackage {
    name: String,
    version: Option<String>,
    marker: Option<String>,
    directory: Option<toml::Table>,
    vcs: Option<toml::Table>,
    archive: Option<toml::Table>,
    #[serde(default)]
    wheels: Vec<PyLockFile>,
    sdist: Option<PyLockFile>,
}

#[derive(Deserialize)]
struct PyLockFile {
    #[serde(default)]
    hashes: BTreeMap<String, String>,
}

/// Parses a `pylock.toml`, and returns its exact packages with their hashes. Packages of groups and extras are left out.
///
/// # Errors
/// A message for text that is not such a lock, or with a package that is not in an index.
pub fn parse_pylock(text: &str) -> Result<ListedRequirements, String> {
    let lock: PyLock = toml::from_str(text).map_err(|error| first_line(&error))?;
    let mut pins = Pins::default();
    for PyLockPackage { name, version, marker, directory, vcs, archive, wheels, sdist } in &lock.packages {
        let is_project =
            directory.as_ref().is_some_and(|dir| dir.get("path").and_then(toml::Value::as_str) == Some("."));
        let is_extra =
            marker.as_ref().is_some_and(|text| text.contains("dependency_groups") || text.contains("extras"));
        if is_project || is_extra {
            continue;
        }
        let is_indexed = directory.is_none() && vcs.is_none() && archive.is_none();
        let version = version.as_deref().filter(|_| is_indexed).ok_or_else(|| format!("{name} is not in an index"))?;
        let hashes: Vec<String> = wheels
            .iter()
            .chain(sdist)
            .filter(|file| !file.hashes.is_empty())
            .map(|file| format!("sha256:{}", file.hashes.get("sha256").map_or("", String::as_str)))
            .collect();
        pins.add(name, version, marker.as_deref(), hashes.iter().map(String::as_str))?;
    }
    Ok(pins.listed)
}

/// Returns the marker that holds if both of these do.
fn both(outer: Option<&str>, inner: Option<&str>) -> Option<String> {
    match (outer, inner) {
        (Some(outer), Some(inner)) if outer != inner => Some(format!("({outer}) and ({inner})")),
        (outer, inner) => outer.or(inner).map(str::to_owned),
    }
}

/// Exact versions of packages.
#[derive(Default)]
struct Pins {
    listed: ListedRequirements,
}

impl Pins {
    fn add<'h>(
        &mut self,
        name: &str,
        version: &str,
        marker: Option<&str>,
        hashes: impl Iterator<Item = &'h str>,
    ) -> Result<(), String> {
        if self.listed.requirements.len() == MAX_REQUIREMENTS {
            return Err(format!("it has more than {MAX_REQUIREMENTS} packages"));
        }
        let marker = marker.map(|marker| format!(" ; {marker}")).unwrap_or_default();
        let requirement: Requirement = format!("{name}=={version}{marker}")
            .parse()
            .map_err(|error: crate::requirement::RequirementError| error.to_string())?;
        let name: PackageName = name.parse().map_err(|_| format!("{name:?} is no name of a package"))?;
        let mut allowed = BTreeSet::new();
        for hash in hashes {
            let digest = hash.strip_prefix("sha256:").ok_or_else(|| format!("{name} has a hash that is not sha256"))?;
            allowed.insert(digest.to_ascii_lowercase());
        }
        let hashes = allowed;
        if !hashes.is_empty() {
            self.listed.hashes.entry(name.to_string()).or_default().extend(hashes);
        }
        self.listed.requirements.push(requirement);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(listed: &ListedRequirements) -> Vec<String> {
        listed.requirements.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn project_table_lists_requirements() {
        let project =
            parse_pyproject("[project]\nname = 'a'\ndependencies = ['rich>=13']\nrequires-python = '>=3.9'\n");
        let project = project.expect("a project");
        let dependencies: Vec<String> = project.dependencies.iter().flatten().map(ToString::to_string).collect();
        assert_eq!((dependencies, project.requires_python.as_deref()), (vec!["rich>=13".to_owned()], Some(">=3.9")));
        assert_eq!(parse_pyproject("[project]\nname = 'a'").expect("a project").dependencies, Some(Vec::new()));
        for other in ["[tool.ruff]\n", "[project]\nname = 'a'\ndynamic = ['dependencies']\n"] {
            assert_eq!(parse_pyproject(other).expect("a project").dependencies, None, "{other}");
        }
        for bad in ["[project", "[project]\ndependencies = ['a @ https://x/y']\n"] {
            assert!(parse_pyproject(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_packages_of_the_project_are_pinned() {
        let digest = "a".repeat(64);
        let text = format!(
            "version = 1\n\
             [[package]]\nname = 'app'\nversion = '0.1'\nsource = {{ virtual = '.' }}\n\
             dependencies = [{{ name = 'a', extra = ['x'] }}, {{ name = 'w', marker = \"sys_platform == 'win32'\" }}]\n\
             [package.dev-dependencies]\ndev = [{{ name = 'tool' }}]\n\
             [[package]]\nname = 'a'\nversion = '1.0'\nsource = {{ registry = 'https://x' }}\ndependencies = [{{ name = 'b' }}]\n\
             wheels = [{{ url = 'https://x/a.whl', hash = 'sha256:{digest}' }}]\n\
             [package.optional-dependencies]\nx = [{{ name = 'c' }}]\n\
             [[package]]\nname = 'b'\nversion = '2.0'\nsource = {{ registry = 'https://x' }}\ndependencies = [{{ name = 'a' }}]\n\
             [[package]]\nname = 'c'\nversion = '3.0'\nsource = {{ registry = 'https://x' }}\n\
             [[package]]\nname = 'w'\nversion = '5.0'\nsource = {{ registry = 'https://x' }}\ndependencies = [{{ name = 'c' }}]\n\
             [[package]]\nname = 'tool'\nversion = '4.0'\nsource = {{ git = 'https://x' }}\n"
        );
        let listed = parse_uv_lock(&text).expect("a lock");
        // The last one is without the extra of the first.
        let expected = ["a==1.0", "w==5.0 ; sys_platform == 'win32'", "b==2.0", "c==3.0", "a==1.0"];
        assert_eq!(shown(&listed), expected);
        assert_eq!(listed.hashes["a"].iter().collect::<Vec<_>>(), [&digest]);
        let error = parse_uv_lock(&text.replace("{ name = 'c' }]\n[[", "{ name = 'tool' }]\n[[")).expect_err("git");
        assert_eq!(error, "tool is not in an index");
        assert!(parse_uv_lock("version = 1\n").is_err());
    }

    #[test]
    fn packages_of_groups_are_left_out() {
        let text = "lock-version = '1.0'\n\
             [[packages]]\nname = 'a'\nversion = '1.0'\nmarker = \"python_version >= '3.9'\"\n\
             wheels = [{ name = 'a.whl', hashes = { sha256 = 'AB' } }]\n\
             [[packages]]\nname = 'app'\ndirectory = { path = '.' }\n\
             [[packages]]\nname = 'dev'\nversion = '2'\nmarker = \"'dev' in dependency_groups\"\n";
        let listed = parse_pylock(text).expect("a lock");
        assert_eq!(shown(&listed), ["a==1.0 ; python_full_version >= '3.9'"]);
        assert!(listed.hashes["a"].contains("ab"));
        assert!(parse_pylock("[[packages]]\nname = 'a'\nversion = '1'\nvcs = { type = 'git' }\n").is_err());
    }
}

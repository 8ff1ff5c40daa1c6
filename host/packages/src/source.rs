//! Source distributions and their static metadata, which is read without running their code.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use uv_distribution_filename::{SourceDistExtension, SourceDistFilename};
use uv_normalize::PackageName;
use uv_pep440::{Version, VersionSpecifiers};
use uv_pep508::VersionOrUrl;
use uv_pypi_types::{PyProjectToml, ResolutionMetadata};

use crate::complexity::{self, ComplexityLimit};
use crate::metadata;
use crate::requirement::Requirement;
use crate::wheel::Wheel;

/// One exact source distribution. Like a wheel, it is identified by its package, version, file, URL, sha256 and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sdist(pub(crate) Wheel);

impl Sdist {
    /// Returns true if a file name matches this package and version, in any spelling of both.
    #[must_use]
    pub(crate) fn matches_file_name(&self, file: &str) -> bool {
        let Self(Wheel { name, version, .. }) = self;
        let (Ok(name), Ok(version)) = (PackageName::from_str(name), Version::from_str(version)) else { return false };
        let Ok(extension) = SourceDistExtension::from_path(file) else { return false };
        SourceDistFilename::parse(file, extension, &name).is_ok_and(|parsed| parsed.version == version)
    }
}

/// Maximum size in bytes of a file that describes a source distribution.
const MAX_METADATA_SIZE: u64 = 1 << 20;

/// Maximum number of build requirements.
const MAX_BUILD_REQUIREMENTS: usize = 100;

/// Maximum number of characters of a requirement that an error shows.
const MAX_SHOWN_CHARS: usize = 200;

/// Default build backend.
const DEFAULT_BACKEND: &str = "setuptools.build_meta:__legacy__";

/// Error in the build system of a source distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pyproject.toml: {0}")]
pub(crate) struct BuildSystemError(String);

/// Build system of a source distribution (PEP 517 and 518).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildSystem {
    /// The build requirements.
    pub(crate) requires: Vec<Requirement>,
    /// The module that provides the build functions, with an optional object in the module after a colon.
    pub(crate) backend: String,
    /// The directories of the source distribution that are searched for the backend first.
    pub(crate) paths: Vec<String>,
}

/// The part of `pyproject.toml` that describes the build system.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PyProject {
    build_system: Option<BuildSystemTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct BuildSystemTable {
    #[serde(default)]
    requires: Vec<String>,
    build_backend: Option<String>,
    #[serde(default)]
    backend_path: Vec<String>,
}

impl BuildSystem {
    /// Reads the build system of the unpacked source distribution at `tree`; the default is setuptools.
    ///
    /// # Errors
    /// When pyproject.toml is too large or is not valid TOML, a requirement is refused, or the name of the backend or
    /// one of its paths is invalid.
    pub(crate) fn of(tree: &Path) -> Result<Self, BuildSystemError> {
        let Some(text) = read_text(&tree.join("pyproject.toml"))? else { return Ok(Self::default_system()) };
        let parsed: PyProject = toml::from_str(&text)
            .map_err(|error| BuildSystemError(error.message().lines().next().unwrap_or_default().to_owned()))?;
        let Some(BuildSystemTable { requires, build_backend, backend_path }) = parsed.build_system else {
            return Ok(Self::default_system());
        };
        let requires = Self::requirements(&requires)?;
        let backend = build_backend.unwrap_or_else(|| DEFAULT_BACKEND.to_owned());
        let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':');
        if backend.is_empty() || backend.len() > 200 || !backend.chars().all(is_allowed) {
            return Err(BuildSystemError("build-backend is not a valid object reference".to_owned()));
        }
        if backend_path.iter().any(|path| path.len() > 200 || path.chars().any(char::is_control)) {
            return Err(BuildSystemError("backend-path contains an invalid path".to_owned()));
        }
        Ok(Self { requires, backend, paths: backend_path })
    }

    /// Parses the build requirements that a backend reports.
    ///
    /// # Errors
    /// When a requirement is refused, or there are too many.
    pub(crate) fn requirements(texts: &[String]) -> Result<Vec<Requirement>, BuildSystemError> {
        if texts.len() > MAX_BUILD_REQUIREMENTS {
            return Err(BuildSystemError(format!("{} build requirements are too many", texts.len())));
        }
        let parsed = texts.iter().map(|text| Requirement::from_str(text));
        parsed.collect::<Result<_, _>>().map_err(|error| BuildSystemError(error.to_string()))
    }

    fn default_system() -> Self {
        let requires = "setuptools".parse().into_iter().collect();
        Self { requires, backend: DEFAULT_BACKEND.to_owned(), paths: Vec::new() }
    }
}

/// Returns the static metadata of the unpacked source distribution at `tree`, if it declares all of the requirements.
pub(crate) fn static_metadata(tree: &Path, sdist: &Sdist) -> Option<ResolutionMetadata> {
    let Sdist(Wheel { name, version, .. }) = sdist;
    let (name, version) = (PackageName::from_str(name).ok()?, Version::from_str(version).ok()?);
    let info = read_text(&tree.join("PKG-INFO")).ok().flatten();
    let info = info.filter(|text| !has_dynamic_requirements(text) && complexity::are_allowed(text.as_bytes()));
    let info = info.and_then(|text| ResolutionMetadata::parse_pkg_info(text.as_bytes()).ok());
    let project = || {
        let text = read_text(&tree.join("pyproject.toml")).ok().flatten()?;
        let parsed = Some(&text).filter(|text| has_allowed_requirements(text))?;
        let parsed = PyProjectToml::from_toml(parsed, "pyproject.toml").ok()?;
        ResolutionMetadata::parse_pyproject_toml(parsed, Some(&version)).ok()
    };
    // With metadata of another package, the source distribution must be built, and the wheel then fails the check of
    // its name.
    info.or_else(project).filter(|static_metadata| static_metadata.name == name && static_metadata.version == version)
}

/// Returns the difference, if any, between the wheel in the file `wheel_file` and the static metadata of its source
/// distribution at `tree`. A resolution relies on the static metadata, and would be invalid with other metadata.
///
/// Returns `None` for a file that is not a valid wheel, which is refused elsewhere.
pub(crate) fn metadata_mismatch(tree: &Path, sdist: &Sdist, wheel_file: &Path) -> Option<String> {
    let static_metadata = static_metadata(tree, sdist)?;
    let text = metadata::in_file(wheel_file)?;
    if text.len() as u64 > metadata::MAX_METADATA_SIZE {
        return Some("its METADATA is larger than 1 MiB".to_owned());
    }
    if !complexity::are_allowed(&text) {
        return Some("its requirements are too complex".to_owned());
    }
    match ResolutionMetadata::parse_metadata(&text) {
        Ok(built) => difference(&static_metadata, &built),
        Err(error) => Some(format!("cannot parse its requirements: {error}")),
    }
}

/// Describes the first difference in the requirements, regardless of spelling and order.
fn difference(static_metadata: &ResolutionMetadata, built: &ResolutionMetadata) -> Option<String> {
    let [declared, needs] = [static_metadata, built].map(|one| {
        let all = one.requires_dist.iter().cloned().map(|mut need| {
            need.extras.sort();
            if matches!(&need.version_or_url, Some(VersionOrUrl::VersionSpecifier(any)) if any.is_empty()) {
                need.version_or_url = None;
            }
            need
        });
        all.collect::<BTreeSet<_>>()
    });
    let truncate = |need: &dyn std::fmt::Display| need.to_string().chars().take(MAX_SHOWN_CHARS).collect::<String>();
    if let Some(more) = needs.difference(&declared).next() {
        return Some(format!("it requires {}, but the static metadata of its source does not", truncate(more)));
    }
    if let Some(less) = declared.difference(&needs).next() {
        return Some(format!("it does not require {}, but the static metadata of its source does", truncate(less)));
    }
    let [declared, needs] =
        [static_metadata, built].map(|one| one.requires_python.as_ref().filter(|versions| !versions.is_empty()));
    let python = |versions: Option<&VersionSpecifiers>| {
        versions.map_or("any Python".to_owned(), |v| format!("Python {}", truncate(v)))
    };
    (declared != needs).then(|| {
        format!("it requires {}, but the static metadata of its source requires {}", python(needs), python(declared))
    })
}

/// Returns true if a PKG-INFO declares requirements as dynamic, in any spelling. uv's parser knows only one spelling.
fn has_dynamic_requirements(info: &str) -> bool {
    let fields = info.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let mut open = fields.filter(|(name, _)| name.eq_ignore_ascii_case("Dynamic")).map(|(_, field)| field.trim());
    open.any(|field| {
        ["Requires-Dist", "Requires-Python", "Provides-Extra"].iter().any(|one| field.eq_ignore_ascii_case(one))
    })
}

/// Returns true if the requirements in a pyproject.toml can be parsed at low cost.
fn has_allowed_requirements(text: &str) -> bool {
    fn are_allowed(value: &toml::Value) -> bool {
        match value {
            toml::Value::String(text) => complexity::is_allowed(text, ComplexityLimit::PACKAGE_METADATA),
            toml::Value::Array(values) => values.iter().all(are_allowed),
            toml::Value::Table(table) => table.values().all(are_allowed),
            _ => true,
        }
    }
    let Ok(parsed) = text.parse::<toml::Table>() else { return false };
    let project = parsed.get("project").and_then(toml::Value::as_table);
    let needs = ["dependencies", "optional-dependencies"].into_iter().filter_map(|key| project?.get(key));
    needs.into_iter().all(are_allowed)
}

/// Reads a file's text, or returns `None` if the file cannot be opened.
fn read_text(path: &Path) -> Result<Option<String>, BuildSystemError> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut text = String::new();
    let unreadable = |error: std::io::Error| BuildSystemError(error.to_string());
    file.take(MAX_METADATA_SIZE + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_METADATA_SIZE {
        return Err(BuildSystemError("it is larger than 1 MiB".to_owned()));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            std::fs::write(tree.path().join(name), text).expect("a file");
        }
        tree
    }

    #[test]
    fn reads_build_system_without_running_code() {
        let default_system = BuildSystem::of(tree(&[("setup.py", "1 / 0")]).path()).expect("the default applies");
        assert_eq!(default_system.backend, "setuptools.build_meta:__legacy__");
        assert_eq!(default_system.requires.len(), 1);
        let text = "[build-system]\nrequires = ['hatchling>=1', 'x; python_version < \"3\"']\n\
                    build-backend = 'hatchling.build'\nbackend-path = ['.']\n";
        let declared = BuildSystem::of(tree(&[("pyproject.toml", text)]).path()).expect("the text is valid");
        assert_eq!(
            (declared.backend.as_str(), declared.requires.len(), declared.paths),
            ("hatchling.build", 2, vec![".".into()])
        );
        for bad in [
            "[build-system",
            "[build-system]\nrequires = 7",
            "[build-system]\nrequires = ['x @ http://127.0.0.1/x.whl']",
            "[build-system]\nrequires = ['-r x']",
            "[build-system]\nrequires = []\nbuild-backend = 'x; import os'",
            "[build-system]\nrequires = []\nbackend-path = [\"a\\u0000b\"]",
        ] {
            assert!(BuildSystem::of(tree(&[("pyproject.toml", bad)]).path()).is_err(), "{bad:?}");
        }
        let many = vec!["x".to_owned(); 1000];
        assert!(BuildSystem::requirements(&many).is_err());
    }

    fn sdist(version: &str) -> Sdist {
        Sdist(Wheel {
            name: "a-b".to_owned(),
            version: version.to_owned(),
            file: format!("a_b-{version}.tar.gz"),
            url: String::new(),
            sha256: "ab".repeat(32),
            size: None,
        })
    }

    #[test]
    fn compares_built_wheel_with_static_metadata() {
        let place = tempfile::tempdir().expect("a directory");
        let wheel_file = place.path().join("a_b-1.0-py3-none-any.whl");
        let head = "Name: a-b\nVersion: 1.0\n";
        let mismatch = |declared: &str, needs: &str| {
            let mut wheel = zip::ZipWriter::new(File::create(&wheel_file).expect("a file"));
            for (name, needs) in
                [("a/c-1.dist-info/METADATA", "Requires-Dist: other\n"), ("a_b-1.0.dist-info/METADATA", needs)]
            {
                wheel.start_file(name, zip::write::SimpleFileOptions::default()).expect("a member");
                write!(wheel, "Metadata-Version: 2.1\n{head}{needs}").expect("its text");
            }
            wheel.finish().expect("an archive");
            let info = format!("Metadata-Version: 2.2\n{head}{declared}");
            metadata_mismatch(tree(&[("PKG-INFO", &info)]).path(), &sdist("1.0"), &wheel_file)
        };
        for (declared, needs) in [
            ("", ""),
            (
                "Requires-Dist: c\nRequires-Dist: D.e[y,x]>=1.0,<2\n",
                "Requires-Dist: d-e[x,y] (<2, >=1)\nRequires-Dist: C\n",
            ),
            (
                "Requires-Dist: c; python_version < '3.9' and extra == 'T_t'\nProvides-Extra: T_t\n",
                "Requires-Dist: c; extra == \"t-t\" and (python_version < \"3.9\")\n",
            ),
            ("Requires-Python: >=3.9, !=3.9.1\n", "Requires-Python: !=3.9.1,>=3.9\n"),
            ("Dynamic: Requires-Dist\n", "Requires-Dist: c\nRequires-Python: >=99\n"),
        ] {
            assert_eq!(mismatch(declared, needs), None, "{declared} {needs}");
        }
        for (declared, needs, expected) in [
            ("", "Requires-Dist: c\n", "it requires c"),
            ("Requires-Dist: c\n", "", "it does not require c"),
            ("Requires-Dist: c\n", "Requires-Dist: c>=2\n", "it requires c>=2"),
            ("Requires-Dist: c; extra == 'x'\n", "Requires-Dist: c\n", "it requires c"),
            ("Requires-Dist: c\n", "Requires-Dist: c[x]\n", "it requires c[x]"),
            ("", "Requires-Python: >=99\n", "it requires Python >=99"),
            ("Requires-Python: >=3.8\n", "", "it requires any Python"),
        ] {
            let line = mismatch(declared, needs).unwrap_or_default();
            assert!(line.starts_with(expected), "{declared} {needs}: {line}");
        }
        let long = format!("Description: {}\nRequires-Dist: c\n", "x".repeat(1 << 20));
        assert_eq!(mismatch("", &long).as_deref(), Some("its METADATA is larger than 1 MiB"));
        let deep = format!("Requires-Dist: c; {}os_name == 'a'{}\n", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(mismatch("", &deep).as_deref(), Some("its requirements are too complex"));
        // An invalid archive is refused elsewhere.
        std::fs::write(&wheel_file, "no archive").expect("a file");
        let info = format!("Metadata-Version: 2.2\n{head}");
        let tree = tree(&[("PKG-INFO", &info)]);
        assert!(static_metadata(tree.path(), &sdist("1.0")).is_some());
        assert_eq!(metadata_mismatch(tree.path(), &sdist("1.0"), &wheel_file), None);
    }

    #[test]
    fn ignores_dynamic_metadata() {
        let needs = |files: &[(&str, &str)], version: &str| {
            static_metadata(tree(files).path(), &sdist(version))
                .map(|static_metadata| static_metadata.requires_dist.len())
        };
        let good = "Metadata-Version: 2.2\nName: a.b\nVersion: 1.0\nRequires-Dist: c\n";
        assert_eq!(needs(&[("PKG-INFO", good)], "1.0"), Some(1));
        assert_eq!(needs(&[("PKG-INFO", good)], "2.0"), None);
        assert_eq!(needs(&[("PKG-INFO", &good.replace("2.2", "2.1"))], "1.0"), None);
        for open in ["Dynamic: Requires-Dist", "Dynamic: requires-dist", "dynamic:provides-extra"] {
            assert_eq!(needs(&[("PKG-INFO", &format!("{good}{open}\n"))], "1.0"), None, "{open}");
        }
        assert_eq!(needs(&[("PKG-INFO", &good.replace("a.b", "other"))], "1.0"), None);
        let project = "[project]\nname = 'A_b'\nversion = '1.0'\ndependencies = ['c', 'd']\n";
        assert_eq!(needs(&[("PKG-INFO", "Metadata-Version: 1.0"), ("pyproject.toml", project)], "1.0"), Some(2));
        let pairs: Vec<String> = (0..20).map(|n| format!("(a{n} == 'b' and c{n} == 'd')")).collect();
        let tangled = format!("c; {}", pairs.join(" or "));
        let info = good.replace("Requires-Dist: c", &format!("Requires-Dist: {tangled}"));
        assert_eq!(needs(&[("PKG-INFO", &info)], "1.0"), None);
        for project in [
            format!("[project]\nname = 'a-b'\nversion = '1.0'\ndependencies = [\"{tangled}\"]\n"),
            format!("[project]\nname = 'a-b'\nversion = '1.0'\n[project.optional-dependencies]\nx = [\"{tangled}\"]\n"),
        ] {
            assert_eq!(needs(&[("pyproject.toml", &project)], "1.0"), None);
        }
        let dynamic = "[project]\nname = 'a-b'\ndynamic = ['version', 'dependencies']\n";
        assert_eq!(needs(&[("pyproject.toml", dynamic)], "1.0"), None);
        assert_eq!(needs(&[], "1.0"), None);
    }
}

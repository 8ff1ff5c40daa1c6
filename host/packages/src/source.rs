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

use crate::condition::{self, Tangle};
use crate::metadata;
use crate::requirement::Requirement;
use crate::resolve::Wheel;

/// One exact source distribution. Like a wheel, it is identified by its package, version, file, URL, sha256 and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sdist(pub Wheel);

impl Sdist {
    /// Returns true if a file name matches this package and version, in any spelling of both.
    #[must_use]
    pub fn is_in(&self, file: &str) -> bool {
        let Self(Wheel { name, version, .. }) = self;
        let (Ok(name), Ok(version)) = (PackageName::from_str(name), Version::from_str(version)) else { return false };
        let Ok(extension) = SourceDistExtension::from_path(file) else { return false };
        SourceDistFilename::parse(file, extension, &name).is_ok_and(|read| read.version == version)
    }
}

/// Maximum size in bytes of a file that describes a source distribution.
const LARGEST: u64 = 1 << 20;

/// Maximum number of build requirements.
const MOST_REQUIRED: usize = 100;

/// Maximum number of characters of a requirement that an error shows.
const SHOWN: usize = 200;

/// Default build backend.
const USUAL: &str = "setuptools.build_meta:__legacy__";

/// Error in the build system of a source distribution.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pyproject.toml: {0}")]
pub struct BadBuildSystem(String);

/// Build system of a source distribution (PEP 517 and 518).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildSystem {
    /// The build requirements.
    pub requires: Vec<Requirement>,
    /// The module that provides the build functions, with an optional object in the module after a colon.
    pub backend: String,
    /// The directories of the source distribution that are searched for the backend first.
    pub paths: Vec<String>,
}

/// The part of `pyproject.toml` that describes the build system.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Project {
    build_system: Option<Table>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Table {
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
    pub fn of(tree: &Path) -> Result<Self, BadBuildSystem> {
        let Some(text) = text_of(&tree.join("pyproject.toml"))? else { return Ok(Self::usual()) };
        let read: Project = toml::from_str(&text)
            .map_err(|error| BadBuildSystem(error.message().lines().next().unwrap_or_default().to_owned()))?;
        let Some(Table { requires, build_backend, backend_path }) = read.build_system else {
            return Ok(Self::usual());
        };
        let requires = Self::wanted(&requires)?;
        let backend = build_backend.unwrap_or_else(|| USUAL.to_owned());
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | ':');
        if backend.is_empty() || backend.len() > 200 || !backend.chars().all(is_plain) {
            return Err(BadBuildSystem("build-backend is not a valid object reference".to_owned()));
        }
        if backend_path.iter().any(|path| path.len() > 200 || path.chars().any(char::is_control)) {
            return Err(BadBuildSystem("backend-path contains an invalid path".to_owned()));
        }
        Ok(Self { requires, backend, paths: backend_path })
    }

    /// Parses the build requirements that a backend reports.
    ///
    /// # Errors
    /// When a requirement is refused, or there are too many.
    pub fn wanted(texts: &[String]) -> Result<Vec<Requirement>, BadBuildSystem> {
        if texts.len() > MOST_REQUIRED {
            return Err(BadBuildSystem(format!("{} build requirements are too many", texts.len())));
        }
        let read = texts.iter().map(|text| Requirement::from_str(text));
        read.collect::<Result<_, _>>().map_err(|error| BadBuildSystem(error.to_string()))
    }

    fn usual() -> Self {
        let requires = "setuptools".parse().into_iter().collect();
        Self { requires, backend: USUAL.to_owned(), paths: Vec::new() }
    }
}

/// Returns the static metadata of the unpacked source distribution at `tree`, if it declares all of the requirements.
pub(crate) fn stated(tree: &Path, sdist: &Sdist) -> Option<ResolutionMetadata> {
    let Sdist(Wheel { name, version, .. }) = sdist;
    let (name, version) = (PackageName::from_str(name).ok()?, Version::from_str(version).ok()?);
    let info = text_of(&tree.join("PKG-INFO")).ok().flatten();
    let info = info.filter(|text| !is_open(text) && condition::are_plain(text.as_bytes()));
    let info = info.and_then(|text| ResolutionMetadata::parse_pkg_info(text.as_bytes()).ok());
    let project = || {
        let text = text_of(&tree.join("pyproject.toml")).ok().flatten()?;
        let read = Some(&text).filter(|text| has_plain_needs(text))?;
        let read = PyProjectToml::from_toml(read, "pyproject.toml").ok()?;
        ResolutionMetadata::parse_pyproject_toml(read, Some(&version)).ok()
    };
    // With metadata of another package, the source distribution must be built, and the wheel then fails the check of
    // its name.
    info.or_else(project).filter(|stated| stated.name == name && stated.version == version)
}

/// Returns the difference, if any, between the wheel in the file `made` and the static metadata of its source
/// distribution at `tree`. A resolution relies on the static metadata, and would be invalid with other metadata.
///
/// Returns `None` for a file that is not a valid wheel, which is refused elsewhere.
pub(crate) fn broken_word(tree: &Path, sdist: &Sdist, made: &Path) -> Option<String> {
    let stated = stated(tree, sdist)?;
    let text = metadata::in_file(made)?;
    if text.len() as u64 > metadata::LARGEST {
        return Some("its METADATA is larger than 1 MiB".to_owned());
    }
    if !condition::are_plain(&text) {
        return Some("its requirements are too complex".to_owned());
    }
    match ResolutionMetadata::parse_metadata(&text) {
        Ok(built) => difference(&stated, &built),
        Err(error) => Some(format!("cannot parse its requirements: {error}")),
    }
}

/// Describes the first difference in the requirements, regardless of spelling and order.
fn difference(stated: &ResolutionMetadata, built: &ResolutionMetadata) -> Option<String> {
    let [said, needs] = [stated, built].map(|one| {
        let all = one.requires_dist.iter().cloned().map(|mut need| {
            need.extras.sort();
            if matches!(&need.version_or_url, Some(VersionOrUrl::VersionSpecifier(any)) if any.is_empty()) {
                need.version_or_url = None;
            }
            need
        });
        all.collect::<BTreeSet<_>>()
    });
    let short = |need: &dyn std::fmt::Display| need.to_string().chars().take(SHOWN).collect::<String>();
    if let Some(more) = needs.difference(&said).next() {
        return Some(format!("it requires {}, but the static metadata of its source does not", short(more)));
    }
    if let Some(less) = said.difference(&needs).next() {
        return Some(format!("it does not require {}, but the static metadata of its source does", short(less)));
    }
    let [said, needs] = [stated, built].map(|one| one.requires_python.as_ref().filter(|versions| !versions.is_empty()));
    let python = |versions: Option<&VersionSpecifiers>| {
        versions.map_or("any Python".to_owned(), |v| format!("Python {}", short(v)))
    };
    (said != needs).then(|| {
        format!("it requires {}, but the static metadata of its source requires {}", python(needs), python(said))
    })
}

/// Returns true if a PKG-INFO declares requirements as dynamic, in any spelling. uv's parser knows only one spelling.
fn is_open(info: &str) -> bool {
    let fields = info.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
    let mut open = fields.filter(|(name, _)| name.eq_ignore_ascii_case("Dynamic")).map(|(_, field)| field.trim());
    open.any(|field| {
        ["Requires-Dist", "Requires-Python", "Provides-Extra"].iter().any(|one| field.eq_ignore_ascii_case(one))
    })
}

/// Returns true if the requirements in a pyproject.toml can be parsed at low cost.
fn has_plain_needs(text: &str) -> bool {
    fn are_plain(value: &toml::Value) -> bool {
        match value {
            toml::Value::String(text) => condition::is_plain(text, Tangle::OF_PACKAGES),
            toml::Value::Array(values) => values.iter().all(are_plain),
            toml::Value::Table(table) => table.values().all(are_plain),
            _ => true,
        }
    }
    let Ok(read) = text.parse::<toml::Table>() else { return false };
    let project = read.get("project").and_then(toml::Value::as_table);
    let needs = ["dependencies", "optional-dependencies"].into_iter().filter_map(|key| project?.get(key));
    needs.into_iter().all(are_plain)
}

/// Reads a file's text, or returns `None` if the file cannot be opened.
fn text_of(path: &Path) -> Result<Option<String>, BadBuildSystem> {
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut text = String::new();
    let unreadable = |error: std::io::Error| BadBuildSystem(error.to_string());
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(BadBuildSystem("it is larger than 1 MiB".to_owned()));
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
    fn what_builds_is_read_and_never_run() {
        let usual = BuildSystem::of(tree(&[("setup.py", "1 / 0")]).path()).expect("nothing is said");
        assert_eq!(usual.backend, "setuptools.build_meta:__legacy__");
        assert_eq!(usual.requires.len(), 1);
        let text = "[build-system]\nrequires = ['hatchling>=1', 'x; python_version < \"3\"']\n\
                    build-backend = 'hatchling.build'\nbackend-path = ['.']\n";
        let said = BuildSystem::of(tree(&[("pyproject.toml", text)]).path()).expect("it is plain");
        assert_eq!((said.backend.as_str(), said.requires.len(), said.paths), ("hatchling.build", 2, vec![".".into()]));
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
        assert!(BuildSystem::wanted(&many).is_err());
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
    fn a_wheel_keeps_the_word_of_its_source() {
        let place = tempfile::tempdir().expect("a directory");
        let made = place.path().join("a_b-1.0-py3-none-any.whl");
        let head = "Name: a-b\nVersion: 1.0\n";
        let broken = |said: &str, needs: &str| {
            let mut wheel = zip::ZipWriter::new(File::create(&made).expect("a file"));
            for (name, needs) in
                [("a/c-1.dist-info/METADATA", "Requires-Dist: other\n"), ("a_b-1.0.dist-info/METADATA", needs)]
            {
                wheel.start_file(name, zip::write::SimpleFileOptions::default()).expect("a member");
                write!(wheel, "Metadata-Version: 2.1\n{head}{needs}").expect("its text");
            }
            wheel.finish().expect("an archive");
            let info = format!("Metadata-Version: 2.2\n{head}{said}");
            broken_word(tree(&[("PKG-INFO", &info)]).path(), &sdist("1.0"), &made)
        };
        for (said, needs) in [
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
            assert_eq!(broken(said, needs), None, "{said} {needs}");
        }
        for (said, needs, told) in [
            ("", "Requires-Dist: c\n", "it requires c"),
            ("Requires-Dist: c\n", "", "it does not require c"),
            ("Requires-Dist: c\n", "Requires-Dist: c>=2\n", "it requires c>=2"),
            ("Requires-Dist: c; extra == 'x'\n", "Requires-Dist: c\n", "it requires c"),
            ("Requires-Dist: c\n", "Requires-Dist: c[x]\n", "it requires c[x]"),
            ("", "Requires-Python: >=99\n", "it requires Python >=99"),
            ("Requires-Python: >=3.8\n", "", "it requires any Python"),
        ] {
            let line = broken(said, needs).unwrap_or_default();
            assert!(line.starts_with(told), "{said} {needs}: {line}");
        }
        let long = format!("Description: {}\nRequires-Dist: c\n", "x".repeat(1 << 20));
        assert_eq!(broken("", &long).as_deref(), Some("its METADATA is larger than 1 MiB"));
        let deep = format!("Requires-Dist: c; {}os_name == 'a'{}\n", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(broken("", &deep).as_deref(), Some("its requirements are too complex"));
        // An invalid archive is refused elsewhere.
        std::fs::write(&made, "no archive").expect("a file");
        let info = format!("Metadata-Version: 2.2\n{head}");
        let tree = tree(&[("PKG-INFO", &info)]);
        assert!(stated(tree.path(), &sdist("1.0")).is_some());
        assert_eq!(broken_word(tree.path(), &sdist("1.0"), &made), None);
    }

    #[test]
    fn only_what_is_said_for_good_counts() {
        let needs = |files: &[(&str, &str)], version: &str| {
            stated(tree(files).path(), &sdist(version)).map(|stated| stated.requires_dist.len())
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

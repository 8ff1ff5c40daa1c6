//! Results of npm resolutions, as stored in lock files.

use std::collections::BTreeSet;
use std::str::FromStr;

use node_semver::Range;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::integrity::Integrity;
use super::name::NpmName;
use super::spec::{NpmSpec, VersionSpec, range_includes};

/// Packages and their places below `node_modules`, in the form of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpmTree {
    /// The requested specs in the form `NAME@RANGE`, sorted.
    #[serde(rename = "asked")]
    pub requested: Vec<String>,
    /// The packages, sorted by place.
    #[serde(default, rename = "package", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<NpmPackage>,
}

/// One package at its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpmPackage {
    /// The path below `node_modules`: `a`, or `a/node_modules/b`.
    pub place: String,
    /// The package's own name, which differs from that of its place if the dependency is an alias.
    pub name: NpmName,
    /// The exact version.
    pub version: String,
    /// The expected digest of the archive.
    pub integrity: Integrity,
    /// The URL of the archive, without credentials.
    pub url: Url,
    /// True if the package names the systems that it supports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system: bool,
}

/// Error for a tree that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NpmTreeError {
    /// A place is not below `node_modules`, or has no parent.
    #[error("locked package {0:?} has a path that is not allowed")]
    InvalidPlace(String),
    /// A place occurs twice.
    #[error("locked package {0:?} occurs twice")]
    Duplicate(String),
    /// A URL has a scheme other than http and https, or contains credentials.
    #[error("locked package {0:?} has a URL that is not allowed")]
    InvalidUrl(String),
    /// The text is not a valid lock.
    #[error("not a codebox lock file: {0}")]
    Invalid(String),
    /// A requested package is missing, or its version does not satisfy the request.
    #[error("no package in it satisfies {0}")]
    Unsatisfied(String),
    /// The content of a package is that of another one.
    #[error("locked package {place:?} contains {name}@{version}")]
    ContentMismatch {
        /// The package's place.
        place: String,
        /// The actual name.
        name: String,
        /// The actual version.
        version: String,
    },
    /// The tree was resolved for other specs.
    #[error("it was created for {}, but the program requests {}", .locked.join(", "), .requested.join(", "))]
    SpecsChanged {
        /// The specs of the tree.
        locked: Vec<String>,
        /// The requested specs.
        requested: Vec<String>,
    },
}

/// Formats the specs as a sorted list without duplicates.
pub(super) fn requested(specs: &[NpmSpec]) -> Vec<String> {
    let sorted: BTreeSet<String> = specs.iter().map(NpmSpec::to_string).collect();
    sorted.into_iter().collect()
}

/// A tree in the form of a lock file.
#[derive(Serialize)]
struct LockFile<T> {
    version: u32,
    #[serde(flatten)]
    tree: T,
}

/// Format version that is written, and the only one that is read.
const LOCK_VERSION: u32 = 1;

impl FromStr for NpmTree {
    type Err = NpmTreeError;

    fn from_str(text: &str) -> Result<Self, NpmTreeError> {
        let unreadable = |error: toml::de::Error| {
            NpmTreeError::Invalid(error.message().lines().next().unwrap_or_default().to_owned())
        };
        // The version is removed before the tree is parsed: with a flattened tree, unknown fields would be accepted.
        let mut table: toml::Table = text.parse().map_err(unreadable)?;
        match table.remove("version") {
            Some(version) if version.as_integer() == Some(i64::from(LOCK_VERSION)) => {}
            Some(_) => return Err(NpmTreeError::Invalid(format!("expected version {LOCK_VERSION}"))),
            None => return Err(NpmTreeError::Invalid("version is missing".to_owned())),
        }
        let tree: Self = table.try_into().map_err(unreadable)?;
        tree.check()?;
        Ok(tree)
    }
}

impl NpmTree {
    /// Formats the tree as the text of a lock.
    ///
    /// # Errors
    /// When the tree cannot be serialized, which does not happen to a resolved tree.
    pub fn to_text(&self) -> Result<String, NpmTreeError> {
        let text = toml::to_string(&LockFile { version: LOCK_VERSION, tree: self });
        text.map_err(|error| NpmTreeError::Invalid(error.to_string()))
    }

    /// Validates a tree that was read from an untrusted file.
    ///
    /// # Errors
    /// [`NpmTreeError`] for the first problem found.
    pub fn check(&self) -> Result<(), NpmTreeError> {
        let mut seen = BTreeSet::new();
        for package in &self.packages {
            let NpmPackage { place, url, .. } = package;
            let names: Vec<&str> = place.split("/node_modules/").collect();
            if !names.iter().all(|name| name.parse::<NpmName>().is_ok()) {
                return Err(NpmTreeError::InvalidPlace(place.clone()));
            }
            if !seen.insert(place.to_lowercase()) {
                return Err(NpmTreeError::Duplicate(place.clone()));
            }
            if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
                return Err(NpmTreeError::InvalidUrl(place.clone()));
            }
        }
        let orphan = self.packages.iter().find(|package| {
            let parent = package.place.rsplit_once("/node_modules/");
            parent.is_some_and(|(parent, _)| !seen.contains(&parent.to_lowercase()))
        });
        orphan.map_or(Ok(()), |package| Err(NpmTreeError::InvalidPlace(package.place.clone())))
    }

    /// Checks that the tree was resolved for `specs`.
    ///
    /// # Errors
    /// [`NpmTreeError::SpecsChanged`] if it is not.
    pub fn check_specs(&self, specs: &[NpmSpec]) -> Result<(), NpmTreeError> {
        let requested = requested(specs);
        if requested == self.requested {
            Ok(())
        } else {
            Err(NpmTreeError::SpecsChanged { locked: self.requested.clone(), requested })
        }
    }

    /// Checks that the requested packages are present in the requested versions.
    ///
    /// # Errors
    /// [`NpmTreeError::Unsatisfied`] if it is not.
    pub fn check_satisfies(&self, specs: &[NpmSpec]) -> Result<(), NpmTreeError> {
        let is_met = |spec: &NpmSpec| {
            self.packages.iter().any(|package| {
                package.place == spec.name().as_str()
                    && package.name == *spec.name()
                    && match spec.to_version_spec() {
                        VersionSpec::Range(range) => range == Range::any() || range_includes(&range, &package.version),
                        VersionSpec::Tag(_) => true,
                    }
            })
        };
        match specs.iter().find(|spec| !is_met(spec)) {
            None => Ok(()),
            Some(spec) => Err(NpmTreeError::Unsatisfied(spec.to_string())),
        }
    }

    /// Computes the key of the tree's environment, which is the same for the same packages at the same places.
    pub(super) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for NpmPackage { place, name, version, integrity, url: _, system } in &self.packages {
            hash.update(format!("{place}\n{name}@{version}\n{integrity}\n{system}\n"));
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(place: &str, url: &str) -> NpmPackage {
        NpmPackage {
            place: place.to_owned(),
            name: "a".parse().expect("a name"),
            version: "1.0.0".to_owned(),
            integrity: Integrity::of(b""),
            url: url.parse().expect("an address"),
            system: false,
        }
    }

    #[test]
    fn rejects_invalid_places_and_urls() {
        let good = "http://127.0.0.1/a.tgz";
        let tree = |packages: &[(&str, &str)]| NpmTree {
            requested: Vec::new(),
            packages: packages.iter().map(|(place, url)| package(place, url)).collect(),
        };
        assert_eq!(tree(&[("a", good), ("a/node_modules/@s/b", good)]).check(), Ok(()));
        for place in ["", "..", "a/b", "../a", "a/node_modules/..", "/a", "a/node_modules/", "a/node_modules/b"] {
            assert!(matches!(tree(&[(place, good)]).check(), Err(NpmTreeError::InvalidPlace(_))), "{place}");
        }
        assert!(matches!(tree(&[("a", good), ("A", good)]).check(), Err(NpmTreeError::Duplicate(_))));
        for url in ["file:///etc/passwd", "http://user:word@127.0.0.1/a.tgz", "git+ssh://x/y"] {
            assert!(matches!(tree(&[("a", url)]).check(), Err(NpmTreeError::InvalidUrl(_))), "{url}");
        }
    }

    #[test]
    fn round_trips_through_text() {
        let tree =
            NpmTree { requested: vec!["a@latest".to_owned()], packages: vec![package("a", "http://127.0.0.1/a.tgz")] };
        let text = serde_json::to_string(&tree).expect("a text");
        assert_eq!(serde_json::from_str::<NpmTree>(&text).expect("the tree"), tree);
        let text = tree.to_text().expect("a text");
        assert_eq!(text.parse(), Ok(tree));
        for other in [text.replace("version = 1", "version = 2"), text.replace("asked", "tasked"), "x".to_owned()] {
            assert!(matches!(other.parse::<NpmTree>(), Err(NpmTreeError::Invalid(_))), "{other}");
        }
        let elsewhere = text.replace("place = \"a\"", "place = \"../a\"");
        assert!(matches!(elsewhere.parse::<NpmTree>(), Err(NpmTreeError::InvalidPlace(_))));
    }
}

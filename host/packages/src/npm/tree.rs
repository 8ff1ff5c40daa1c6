//! What a resolution came to.

use std::collections::BTreeSet;
use std::str::FromStr;

use node_semver::Range;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::integrity::Integrity;
use super::name::NpmName;
use super::pick::admits;
use super::spec::{NpmSpec, Wanted};

/// Packages and their places below `node_modules`, as a lock holds them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpmTree {
    /// What was asked for, `NAME@RANGE`, in order.
    pub asked: Vec<String>,
    /// Sorted by place.
    #[serde(default, rename = "package", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<NpmPackage>,
}

/// One package at its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpmPackage {
    /// Below `node_modules`: `a`, or `a/node_modules/b`.
    pub place: String,
    /// Its own name, which an alias makes another than its place's.
    pub name: NpmName,
    /// Its exact version.
    pub version: String,
    /// What its archive has to be.
    pub integrity: Integrity,
    /// Where its archive was, without credentials.
    pub url: Url,
    /// Whether it names the systems it is for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub system: bool,
}

/// A tree that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTree {
    /// A place that is not below `node_modules`, or has no parent.
    #[error("locked package {0:?} has a place that is not allowed")]
    Place(String),
    /// A place that occurs twice.
    #[error("locked package {0:?} occurs twice")]
    Twice(String),
    /// An address that is not one of the web, or holds a password.
    #[error("locked package {0:?} has an address that is not allowed")]
    Address(String),
    /// It is none.
    #[error("it is no lock of codebox's: {0}")]
    Unreadable(String),
    /// Something that was asked for is not in it.
    #[error("it has nothing that is {0}")]
    Unmet(String),
    /// A package is another one by its content.
    #[error("locked package {place:?} is {name}@{version} by its content")]
    Another {
        /// Its place.
        place: String,
        /// What it is.
        name: String,
        /// In which version.
        version: String,
    },
    /// It was made for something else.
    #[error("it was made for {}, and the program asks for {}", .locked.join(", "), .asked.join(", "))]
    Asked {
        /// What it was made for.
        locked: Vec<String>,
        /// What is wanted now.
        asked: Vec<String>,
    },
}

/// A word for what was asked for, whatever the order.
pub(super) fn asked(specs: &[NpmSpec]) -> Vec<String> {
    let sorted: BTreeSet<String> = specs.iter().map(NpmSpec::to_string).collect();
    sorted.into_iter().collect()
}

/// A tree as a lock file has it.
#[derive(Serialize)]
struct Written<T> {
    version: u32,
    #[serde(flatten)]
    tree: T,
}

/// The form that is written, and the only one that is read.
const VERSION: u32 = 1;

impl FromStr for NpmTree {
    type Err = BadTree;

    fn from_str(text: &str) -> Result<Self, BadTree> {
        let unreadable =
            |error: toml::de::Error| BadTree::Unreadable(error.message().lines().next().unwrap_or_default().to_owned());
        // Without the version first: what is flattened could have fields that nobody knows.
        let mut table: toml::Table = text.parse().map_err(unreadable)?;
        match table.remove("version") {
            Some(version) if version.as_integer() == Some(i64::from(VERSION)) => {}
            Some(_) => return Err(BadTree::Unreadable(format!("its version is not {VERSION}"))),
            None => return Err(BadTree::Unreadable("it names no version".to_owned())),
        }
        let tree: Self = table.try_into().map_err(unreadable)?;
        tree.check()?;
        Ok(tree)
    }
}

impl NpmTree {
    /// The text of a lock, as it is read again.
    ///
    /// # Errors
    /// When it cannot be written, which no tree that was resolved comes to.
    pub fn to_text(&self) -> Result<String, BadTree> {
        let text = toml::to_string(&Written { version: VERSION, tree: self });
        text.map_err(|error| BadTree::Unreadable(error.to_string()))
    }

    /// Looks through a tree that was read from a file, which anybody may have written.
    ///
    /// # Errors
    /// [`BadTree`] with what is wrong.
    pub fn check(&self) -> Result<(), BadTree> {
        let mut seen = BTreeSet::new();
        for package in &self.packages {
            let NpmPackage { place, url, .. } = package;
            let names: Vec<&str> = place.split("/node_modules/").collect();
            if !names.iter().all(|name| name.parse::<NpmName>().is_ok()) {
                return Err(BadTree::Place(place.clone()));
            }
            if !seen.insert(place.to_lowercase()) {
                return Err(BadTree::Twice(place.clone()));
            }
            if !matches!(url.scheme(), "http" | "https") || !url.username().is_empty() || url.password().is_some() {
                return Err(BadTree::Address(place.clone()));
            }
        }
        let orphan = self.packages.iter().find(|package| {
            let above = package.place.rsplit_once("/node_modules/");
            above.is_some_and(|(above, _)| !seen.contains(&above.to_lowercase()))
        });
        orphan.map_or(Ok(()), |package| Err(BadTree::Place(package.place.clone())))
    }

    /// Whether this is what was resolved for `specs`.
    ///
    /// # Errors
    /// [`BadTree::Asked`] if it is not.
    pub fn is_for(&self, specs: &[NpmSpec]) -> Result<(), BadTree> {
        let asked = asked(specs);
        if asked == self.asked { Ok(()) } else { Err(BadTree::Asked { locked: self.asked.clone(), asked }) }
    }

    /// Whether what was asked for is there, in a version that was asked for.
    ///
    /// # Errors
    /// [`BadTree::Unmet`] if it is not.
    pub fn serves(&self, specs: &[NpmSpec]) -> Result<(), BadTree> {
        let met = |spec: &NpmSpec| {
            self.packages.iter().any(|package| {
                package.place == spec.name().as_str()
                    && package.name == *spec.name()
                    && match spec.to_wanted() {
                        Wanted::Range(range) => range == Range::any() || admits(&range, &package.version),
                        Wanted::Tag(_) => true,
                    }
            })
        };
        match specs.iter().find(|spec| !met(spec)) {
            None => Ok(()),
            Some(spec) => Err(BadTree::Unmet(spec.to_string())),
        }
    }

    /// A name for what the environment of this tree holds, the same for the same packages at the same places.
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
    fn a_tree_that_anybody_wrote_is_looked_through() {
        let good = "http://127.0.0.1/a.tgz";
        let tree = |packages: &[(&str, &str)]| NpmTree {
            asked: Vec::new(),
            packages: packages.iter().map(|(place, url)| package(place, url)).collect(),
        };
        assert_eq!(tree(&[("a", good), ("a/node_modules/@s/b", good)]).check(), Ok(()));
        for place in ["", "..", "a/b", "../a", "a/node_modules/..", "/a", "a/node_modules/", "a/node_modules/b"] {
            assert!(matches!(tree(&[(place, good)]).check(), Err(BadTree::Place(_))), "{place}");
        }
        assert!(matches!(tree(&[("a", good), ("A", good)]).check(), Err(BadTree::Twice(_))));
        for url in ["file:///etc/passwd", "http://user:word@127.0.0.1/a.tgz", "git+ssh://x/y"] {
            assert!(matches!(tree(&[("a", url)]).check(), Err(BadTree::Address(_))), "{url}");
        }
    }

    #[test]
    fn a_tree_survives_being_written() {
        let tree =
            NpmTree { asked: vec!["a@latest".to_owned()], packages: vec![package("a", "http://127.0.0.1/a.tgz")] };
        let text = serde_json::to_string(&tree).expect("a text");
        assert_eq!(serde_json::from_str::<NpmTree>(&text).expect("the tree"), tree);
        let text = tree.to_text().expect("a text");
        assert_eq!(text.parse(), Ok(tree));
        for other in [text.replace("version = 1", "version = 2"), text.replace("asked", "tasked"), "x".to_owned()] {
            assert!(matches!(other.parse::<NpmTree>(), Err(BadTree::Unreadable(_))), "{other}");
        }
        let elsewhere = text.replace("place = \"a\"", "place = \"../a\"");
        assert!(matches!(elsewhere.parse::<NpmTree>(), Err(BadTree::Place(_))));
    }
}

//! Lock of a script: every package with its version and hash, for each target.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use uv_distribution_filename::WheelFilename;
use uv_normalize::PackageName;
use uv_pep440::Version;

use crate::pin::Sha256;
use crate::requirement::Requirement;
use crate::requirements_file::MAX_REQUIREMENTS;
use crate::resolve::Resolved;
use crate::target::Target;
use crate::wheel::Wheel;

/// Format identifier in the file.
const FORMAT: &str = "codebox-1";

/// Exact packages for the targets that a script was locked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    format: String,
    /// The requirements that were resolved.
    requirements: Vec<String>,
    /// The resolution for each target.
    #[serde(default)]
    target: BTreeMap<String, LockedTarget>,
}

/// The packages of one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LockedTarget {
    #[serde(flatten)]
    resolved: Resolved,
    /// Packages that are available only in a container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    native: Vec<String>,
}

/// Error reading a lock, or using it for a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The file is not a valid lock: another program wrote it, or it was edited by hand.
    #[error("not a codebox lock file: {0}")]
    Invalid(String),
    /// The script's requirements differ from those of the lock.
    #[error("it was created for {locked}, but the program requests {requested}")]
    RequirementsChanged {
        /// The requirements of the lock.
        locked: String,
        /// The requirements of the script.
        requested: String,
    },
    /// A required package is missing, or its version does not satisfy the requirement.
    #[error("no package in it satisfies {0}")]
    Unsatisfied(String),
    /// The lock lists a package more than once.
    #[error("package {0} is listed twice")]
    Duplicate(String),
    /// The name of a file does not match the package that the lock lists it for.
    #[error("file {file:?} does not belong to {package}")]
    FileNameMismatch {
        /// The file.
        file: String,
        /// The package and its version.
        package: String,
    },
    /// The lock has no entry for the target.
    #[error("it has no packages for {target}, only for {known}")]
    MissingTarget {
        /// The target.
        target: String,
        /// The targets of the lock.
        known: String,
    },
}

impl Lock {
    /// Creates a lock for these requirements, without any targets.
    #[must_use]
    pub fn new(requirements: &[Requirement]) -> Self {
        Self { format: FORMAT.to_owned(), requirements: texts(requirements), target: BTreeMap::new() }
    }

    /// Adds the resolution for a target.
    pub(crate) fn add(&mut self, target: &Target, resolved: Resolved) {
        self.target.insert(target.name(), LockedTarget { resolved, native: Vec::new() });
    }

    /// Adds a target that cannot be served, with the native packages that prevent it.
    pub(crate) fn add_native(&mut self, target: &Target, native: Vec<String>) {
        self.target.insert(target.name(), LockedTarget { resolved: Resolved::default(), native });
    }

    /// Formats the lock as the text of a file.
    ///
    /// # Errors
    /// When the lock cannot be serialized.
    pub fn to_text(&self) -> Result<String, LockError> {
        let text = toml::to_string_pretty(self).map_err(|error| LockError::Invalid(error.to_string()))?;
        Ok(format!(
            "# Written by `codebox lock`; `codebox run` reads it. Run `codebox lock` again when the packages change.\n{text}"
        ))
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// When the text is not a valid lock.
    pub fn parse(text: &str) -> Result<Self, LockError> {
        let parsed: Self = toml::from_str(text)
            .map_err(|error| LockError::Invalid(error.message().lines().next().unwrap_or_default().to_owned()))?;
        if parsed.format != FORMAT {
            return Err(LockError::Invalid(format!("unsupported format {:?}", parsed.format)));
        }
        if parsed.requirements.len() > MAX_REQUIREMENTS {
            return Err(LockError::Invalid(format!("more than {MAX_REQUIREMENTS} requirements")));
        }
        let files = parsed.target.values().flat_map(|locked| locked.resolved.files());
        // The hashes become directory names.
        let plain = |sha256: &str| sha256.parse::<Sha256>().is_ok_and(|parsed| parsed.to_string() == sha256);
        let bad = files.map(|file| &file.sha256).find(|sha256| !plain(sha256)).cloned();
        if let Some(sha256) = bad {
            return Err(LockError::Invalid(format!("invalid sha256 {sha256:?}")));
        }
        // Packages and their hashes are looked up by the normalized name, so only that spelling is allowed.
        let built_in = parsed.target.values().flat_map(|locked| locked.resolved.built_in.iter().map(|(name, _)| name));
        let files = parsed.target.values().flat_map(|locked| locked.resolved.files().map(|file| &file.name));
        let is_not_normalized =
            |name: &&String| !PackageName::from_str(name).is_ok_and(|parsed| parsed.as_ref() == name.as_str());
        let not_normalized = files.chain(built_in).find(is_not_normalized).cloned();
        match not_normalized {
            Some(name) => Err(LockError::Invalid(format!("{name:?} is not a normalized package name"))),
            None => Ok(parsed),
        }
    }

    /// Checks that the lock was made for these requirements, and that its entries could be the result of a resolution.
    ///
    /// # Errors
    /// When the requirements differ or are not met, a package is listed twice, or a file does not belong to its
    /// package.
    pub fn check(&self, requirements: &[Requirement]) -> Result<(), LockError> {
        let requested = texts(requirements);
        if requested != self.requirements {
            return Err(LockError::RequirementsChanged {
                locked: self.requirements.join(", "),
                requested: requested.join(", "),
            });
        }
        // The file is not trusted: it may list one package under the name of another.
        let unmet = self.target.values().filter(|locked| locked.native.is_empty()).find_map(
            |LockedTarget { resolved, .. }| {
                let files = resolved.files().map(|file| (&file.name, &file.version));
                let all: Vec<_> =
                    files.chain(resolved.built_in.iter().map(|(name, version)| (name, version))).collect();
                requirements.iter().find(|one| {
                    let mut named = all.iter().filter(|(name, _)| one.is_named(name)).peekable();
                    // A requirement with a marker may be missing, since it applies to some systems only.
                    let missing = named.peek().is_none() && !one.has_marker();
                    missing || named.any(|(_, version)| !one.allows_version(version))
                })
            },
        );
        match unmet {
            None => self.target.values().try_for_each(|locked| check_unique_packages(&locked.resolved)),
            Some(one) => Err(LockError::Unsatisfied(one.to_string())),
        }
    }

    /// Returns the requirements that the lock was made for, without those that cannot be parsed.
    #[must_use]
    pub fn requirements(&self) -> Vec<Requirement> {
        self.requirements.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Returns the names of the packages whose files the lock lists, for all targets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.target.values().flat_map(|locked| locked.resolved.files().map(|file| file.name.as_str()))
    }

    /// Returns the packages for a target, or the native packages that prevent a resolution.
    ///
    /// # Errors
    /// When the lock has no entry for the target.
    pub(crate) fn of(&self, target: &Target) -> Result<Result<Resolved, Vec<String>>, LockError> {
        match self.target.get(&target.name()) {
            Some(LockedTarget { native, .. }) if !native.is_empty() => Ok(Err(native.clone())),
            Some(LockedTarget { resolved, .. }) => {
                let mut resolved = resolved.clone();
                // The file comes with the script. It determines the content, but the user's own indexes supply the
                // files: the recorded URLs are informative only.
                resolved.wheels.iter_mut().for_each(|wheel| wheel.url.clear());
                resolved.sources.iter_mut().for_each(|sdist| sdist.0.url.clear());
                Ok(Ok(resolved))
            }
            None => {
                let known = self.target.keys().cloned().collect::<Vec<_>>().join(", ");
                Err(LockError::MissingTarget { target: target.name(), known })
            }
        }
    }
}

/// Refuses a package that is listed twice, and a file that belongs to another package by its name.
fn check_unique_packages(resolved: &Resolved) -> Result<(), LockError> {
    let built_in = resolved.built_in.iter().map(|(name, _)| name);
    let mut seen = BTreeSet::new();
    let mut names = resolved.files().map(|file| &file.name).chain(built_in);
    let plain = |name: &str| PackageName::from_str(name).map_or_else(|_| name.to_owned(), |name| name.to_string());
    if let Some(name) = names.find(|name| !seen.insert(plain(name))) {
        return Err(LockError::Duplicate(name.clone()));
    }
    let mut wheels = resolved.wheels.iter().filter(|wheel| !is_named_for_package(wheel));
    let mut sources =
        resolved.sources.iter().filter(|sdist| !sdist.matches_file_name(&sdist.0.file)).map(|sdist| &sdist.0);
    wheels.next().or_else(|| sources.next()).map_or(Ok(()), |Wheel { name, version, file, .. }| {
        Err(LockError::FileNameMismatch { file: file.clone(), package: format!("{name} {version}") })
    })
}

/// Returns true if the file name of a wheel matches its package and version, in any spelling of both.
fn is_named_for_package(Wheel { name, version, file, .. }: &Wheel) -> bool {
    let same = |parsed: WheelFilename| {
        PackageName::from_str(name).is_ok_and(|name| name == parsed.name)
            && Version::from_str(version).is_ok_and(|version| version == parsed.version)
    };
    WheelFilename::from_str(file).is_ok_and(same)
}

fn texts(requirements: &[Requirement]) -> Vec<String> {
    let mut texts: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Sdist;

    #[test]
    fn round_trips_and_validates_lock() {
        let requirements: Vec<Requirement> = ["b>=1", "a"].map(|text| text.parse().expect("a requirement")).into();
        let wheel = Wheel {
            name: "a".to_owned(),
            version: "1.0".to_owned(),
            file: "a-1.0-py3-none-any.whl".to_owned(),
            url: "http://127.0.0.1/a.whl".to_owned(),
            sha256: "ab".repeat(32),
            size: Some(3),
        };
        let built_in = ["b", "six"].map(|name| (name.to_owned(), "1.17.0".to_owned())).into();
        let source = Wheel { name: "c".to_owned(), file: "c-1.0.tar.gz".to_owned(), ..wheel.clone() };
        let found = Resolved { wheels: vec![wheel], built_in, sources: vec![Sdist(source)] };
        let wasm = Target::Wasm { python: "3.15.0".to_owned(), built_in: Vec::new() };
        let mut lock = Lock::new(&requirements);
        lock.add(&wasm, found.clone());
        let mut resolved = found;
        resolved.wheels[0].url.clear();
        resolved.sources[0].0.url.clear();
        lock.add_native(&Target::default_container(), vec!["b".to_owned()]);
        let parsed = Lock::parse(&lock.to_text().expect("a text")).expect("a lock");
        assert_eq!(parsed, lock);
        assert_eq!(parsed.check(&requirements), Ok(()));
        assert_eq!(texts(&parsed.requirements()), texts(&requirements));
        assert!(matches!(parsed.check(&requirements[..1]), Err(LockError::RequirementsChanged { .. })));
        assert_eq!(parsed.of(&wasm), Ok(Ok(resolved)));
        assert_eq!(parsed.names().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(parsed.of(&Target::default_container()), Ok(Err(vec!["b".to_owned()])));
        let more: Vec<Requirement> = ["b>=2", "a"].map(|text| text.parse().expect("a requirement")).into();
        let mut other = Lock::new(&more);
        other.add(&wasm, lock.target[&wasm.name()].resolved.clone());
        assert_eq!(other.check(&more), Err(LockError::Unsatisfied("b>=2".to_owned())));
        let changed = |change: fn(&mut Resolved)| {
            let mut resolved = lock.target[&wasm.name()].resolved.clone();
            change(&mut resolved);
            let mut changed = Lock::new(&requirements);
            changed.add(&wasm, resolved);
            changed.check(&requirements)
        };
        let again = |name: &str| Err(LockError::Duplicate(name.to_owned()));
        assert_eq!(changed(|found| found.wheels.push(found.wheels[0].clone())), again("a"));
        assert_eq!(changed(|found| found.wheels.push(found.sources[0].0.clone())), again("c"));
        assert_eq!(changed(|found| found.built_in.push(("A".to_owned(), "1.0".to_owned()))), again("A"));
        for change in [
            |found: &mut Resolved| found.wheels[0].file = "b-1.0-py3-none-any.whl".to_owned(),
            |found: &mut Resolved| found.wheels[0].file = "a-2.0-py3-none-any.whl".to_owned(),
            |found: &mut Resolved| found.wheels[0].file = "a.py".to_owned(),
            |found: &mut Resolved| found.sources[0].0.file = "a-1.0.tar.gz".to_owned(),
            |found: &mut Resolved| found.sources[0].0.version = "2.0".to_owned(),
        ] {
            assert!(matches!(changed(change), Err(LockError::FileNameMismatch { .. })));
        }
        assert_eq!(changed(|found| found.sources[0].0.file = "C-1.tar.gz".to_owned()), Ok(()));
        let text = lock.to_text().expect("a text");
        assert!(matches!(Lock::parse(&text.replace(&"ab".repeat(32), "../../x")), Err(LockError::Invalid(_))));
        assert!(matches!(Lock::parse(&text.replace(&"ab".repeat(32), &"AB".repeat(32))), Err(LockError::Invalid(_))));
        let more: Vec<Requirement> =
            (0..=MAX_REQUIREMENTS).map(|number| format!("p{number}").parse().expect("a requirement")).collect();
        let oversized = Lock::new(&more).to_text().expect("a text");
        assert!(matches!(Lock::parse(&oversized), Err(LockError::Invalid(_))));
        let other_spelling = text.replace("name = \"a\"", "name = \"A\"");
        assert!(other_spelling != text && matches!(Lock::parse(&other_spelling), Err(LockError::Invalid(_))));
        for more in ["format = 'codebox-1'\nformat =", "format = 'codebox-1'\nformats = 1\nf ="] {
            assert!(matches!(Lock::parse(&text.replace("format =", more)), Err(LockError::Invalid(_))), "{more}");
        }
        assert!(matches!(Lock::parse(&text.replace("sha256 =", "sha1 = 'x'\nsha256 =")), Err(LockError::Invalid(_))));
        for text in ["", "version = 1\n[[package]]\nname = 'a'\n", "format = 'x'\nrequirements = []", "\u{1}"] {
            assert!(matches!(Lock::parse(text), Err(LockError::Invalid(_))), "{text:?}");
        }
    }
}

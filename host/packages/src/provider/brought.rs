//! Packages of the WebAssembly runtime, for programs that import them and run in a container.
//!
//! The runtime bundles numpy, pandas and other packages that a plain Python image lacks. A program that runs in a
//! container for another reason, such as a thread, has the same packages there as in WebAssembly.

use crate::{Requirement, Target};
use codebox_core::{Language, RunnerError};
use codebox_service::catalog::{BundledPackage, Catalog};
use codebox_service::config::Packages;

use super::asked::Asked;

/// A package that the runtime of a language bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Brought {
    /// The module of the package that the program imports.
    pub module: String,
    /// The name of the package.
    pub name: String,
    /// The version that the runtime bundles.
    pub version: String,
}

/// Returns the bundled packages of a language's runtime that the modules belong to, each once.
pub(super) fn by_runtime(catalog: &dyn Catalog, language: &Language, imports: &[String]) -> Vec<Brought> {
    let mut brought: Vec<Brought> = Vec::new();
    for module in imports {
        let Some(BundledPackage { name, version }) = catalog.bundled_package(language, module) else { continue };
        if brought.iter().all(|known| known.name != name) {
            brought.push(Brought { module: module.clone(), name, version });
        }
    }
    brought
}

/// Returns requirements for those of the packages that the job does not request and the image does not have.
///
/// The version is the bundled one, or the newest earlier one that supports the image's Python. A package that the
/// configuration does not allow is left out with a note.
pub(super) fn lacking(
    brought: &[Brought],
    (asked, rules): (&Asked, &Packages),
    target: &Target,
    notes: &mut Vec<String>,
) -> Vec<Requirement> {
    let mut lacking = Vec::new();
    for Brought { module, name, version } in brought {
        if asked.wanted.iter().any(|wanted| wanted.name() == name.as_str()) || target.has_installed(name) {
            continue;
        }
        if !rules.allows(name) {
            notes.push(format!("the program imports {module}, but package {name} is not allowed by the configuration"));
            continue;
        }
        lacking.extend(format!("{name}<={version}").parse::<Requirement>().ok());
    }
    lacking
}

/// Returns the note that such packages could not be installed.
pub(super) fn not_installed(packages: &[Requirement], failure: &RunnerError) -> String {
    let names: Vec<&str> = packages.iter().map(Requirement::name).collect();
    format!("packages that the program imports are not installed: {}: {}", names.join(", "), failure.message())
}

//! Packages of the WebAssembly runtime, for programs that import them and run in a container.
//!
//! The runtime bundles numpy, pandas and other packages that a plain Python image lacks. A program that runs in a
//! container for another reason, such as a thread, has the same packages there as in WebAssembly.

use crate::requirement::Requirement;
use crate::target::Target;
use codebox_core::{Language, RunnerError};
use codebox_service::catalog::{BundledPackage, Catalog};
use codebox_service::config::Packages;

use super::request::PackageRequest;

/// A package that the runtime of a language bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BundledImport {
    /// The module of the package that the program imports.
    pub module: String,
    /// The name of the package.
    pub name: String,
    /// The version that the runtime bundles.
    pub version: String,
}

/// Returns the bundled packages of a language's runtime that the modules belong to, each once.
pub(super) fn bundled_imports(catalog: &dyn Catalog, language: &Language, imports: &[String]) -> Vec<BundledImport> {
    let mut bundled: Vec<BundledImport> = Vec::new();
    for module in imports {
        let Some(BundledPackage { name, version }) = catalog.bundled_package(language, module) else { continue };
        if bundled.iter().all(|known| known.name != name) {
            bundled.push(BundledImport { module: module.clone(), name, version });
        }
    }
    bundled
}

/// Returns requirements for those of the packages that the job does not request and the image does not have.
///
/// The version is the bundled one, or the newest earlier one that supports the image's Python. A package that the
/// configuration does not allow is left out with a note.
pub(super) fn missing_requirements(
    bundled: &[BundledImport],
    request: &PackageRequest,
    rules: &Packages,
    target: &Target,
    notes: &mut Vec<String>,
) -> Vec<Requirement> {
    let mut missing_requirements = Vec::new();
    for BundledImport { module, name, version } in bundled {
        if request.requirements.iter().any(|requirement| requirement.name() == name.as_str())
            || target.has_installed(name)
        {
            continue;
        }
        if !rules.allows(name) {
            notes.push(format!("the program imports {module}, but package {name} is not allowed by the configuration"));
            continue;
        }
        missing_requirements.extend(format!("{name}<={version}").parse::<Requirement>().ok());
    }
    missing_requirements
}

/// Returns the note that such packages could not be installed.
pub(super) fn not_installed(packages: &[Requirement], failure: &RunnerError) -> String {
    let names: Vec<&str> = packages.iter().map(Requirement::name).collect();
    format!("packages that the program imports are not installed: {}: {}", names.join(", "), failure.message())
}

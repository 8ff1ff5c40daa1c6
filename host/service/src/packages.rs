//! Provider of the packages that jobs request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codebox_core::{Backend, BoxFuture, Layer, Progress, RunnerError};

use crate::admission::{Admitted, PackageNeeds};

/// Returns false if a job certainly requests no packages, as far as a glance at its program shows. Does not block.
#[must_use]
pub fn may_request_packages(admitted: &Admitted) -> bool {
    let job = admitted.job();
    let has_metadata = || job.source.text().is_some_and(has_script_metadata);
    let has_lock = || admitted.script().is_some_and(|script| lock_path(script).symlink_metadata().is_ok());
    let has_manifest = admitted.project().is_some_and(|project| !project.manifests.is_empty());
    !job.packages.is_empty() || !admitted.requirements().is_empty() || has_manifest || has_metadata() || has_lock()
}

/// Returns true if a program may have a block of script metadata.
fn has_script_metadata(text: &[u8]) -> bool {
    const MARKER: &[u8] = b"# /// script";
    text.windows(MARKER.len()).any(|window| window == MARKER)
}

/// Returns the path of a script's lock.
#[must_use]
pub fn lock_path(script: &Path) -> PathBuf {
    let mut name = script.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Resolver and store of packages, such as those of Python and npm.
///
/// The methods may block for as long as their work takes.
pub trait PackageProvider: Send + Sync {
    /// Returns false if a job certainly requests no packages, as far as a glance at its program shows. Does not block.
    fn may_be_requested(&self, admitted: &Admitted) -> bool;

    /// Resolves a job's packages, and determines if they need a container. Changes only the caches of index answers and
    /// packages. `engines` may build the packages that have to be built, the preferred one first.
    ///
    /// # Errors
    /// Returns an error if a package is refused, or cannot be found or built.
    fn resolve<'a>(
        &'a self,
        admitted: &'a Admitted,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageNeeds, RunnerError>>;

    /// Prepares a job's packages for its target, and returns the layers for its guest. The packages are protected from
    /// removal as long as the process runs.
    ///
    /// # Errors
    /// Returns an error if the packages cannot be prepared.
    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        target: LayerTarget<'a>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageLayers, RunnerError>>;

    /// Resolves a script to exact packages, writes its lock file beside it, and returns the path of that file.
    ///
    /// # Errors
    /// Returns an error if a package cannot be found, or the file cannot be written.
    fn lock<'a>(
        &'a self,
        admitted: &'a Admitted,
        script: &'a Path,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PathBuf, RunnerError>>;

    /// Lists the stored packages.
    fn list(&self) -> Vec<StoredPackage>;

    /// Removes the packages that no run uses now, and returns their number and the bytes that this frees. Waits for
    /// runs that are installing packages, and reports the wait.
    ///
    /// # Errors
    /// Returns an error if a package cannot be removed.
    fn prune(&self, progress: &dyn Progress) -> Result<(usize, u64), RunnerError>;
}

/// Function that returns the value of an environment variable, for the configuration of package indexes and registries.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Guest environment that packages are prepared for.
#[derive(Clone, Copy)]
pub enum LayerTarget<'a> {
    /// The WebAssembly runtime of the job's language.
    Wasm,
    /// A container.
    Container {
        /// Backend of the container.
        engine: &'a dyn Backend,
        /// Modules that the program imports from packages or the library.
        imports: &'a [String],
    },
}

/// Packages of a job, as its guest uses them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackageLayers {
    /// Layers that contain the packages.
    pub layers: Vec<Layer>,
    /// Further notes for the user about the packages, each in one line.
    pub notes: Vec<String>,
}

/// A stored package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPackage {
    /// Name of the package.
    pub name: String,
    /// Original artifact: the file name of a wheel, or the name and version in a registry.
    pub file: String,
    /// Digest of the artifact, prefixed by the algorithm: `sha256-…`.
    pub content: String,
    /// Size on disk in bytes.
    pub size: u64,
    /// Targets that the package is prepared for.
    pub targets: Vec<String>,
    /// Source distribution that the package was built from, as file name and digest; `None` if it was not built.
    pub origin: Option<(String, String)>,
}

use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_analysis::Analyzer;
use codebox_core::{Backend, BackendId, BoxFuture, InstanceSpec, Language, Layer, Wall};
use codebox_service::catalog::{Catalog, Progress};
use codebox_service::{Admitted, Check, Journal, PackageNeeds, Plan, Policy, Surroundings};

use crate::failure::Failure;

/// Services that the command line needs from the composition root, which alone knows every backend.
///
/// A service is created only when a command needs it, so `codebox --version` opens no file.
pub trait Host {
    /// Returns the policy of the user's configuration.
    ///
    /// # Errors
    /// Returns an error if the configuration cannot be read.
    fn policy(&self) -> Result<Policy, Failure>;

    /// Returns the environment and directories that requests are resolved against.
    fn surroundings(&self) -> &dyn Surroundings;

    /// Returns the analyzer, which parses program text in its own processes and starts none before the first use.
    ///
    /// # Errors
    /// Returns an error if its directory cannot be used.
    fn analyzer(&self) -> Result<&Analyzer, Failure>;

    /// Returns the catalog of runtimes and images.
    ///
    /// # Errors
    /// Returns an error if its directories cannot be used.
    fn catalog(&self) -> Result<&dyn Catalog, Failure>;

    /// Returns the journal of accepted jobs.
    ///
    /// # Errors
    /// Returns an error if its folder cannot be used.
    fn journal(&self) -> Result<&Journal, Failure>;

    /// Returns all backends, the preferred one first. If `engine` names a container engine, the others are left out.
    ///
    /// # Errors
    /// Returns an error if a backend cannot be created. An unavailable backend is not an error.
    fn backends(&self, engine: Option<&str>) -> Result<Vec<&dyn Backend>, Failure>;

    /// Loads the parts of a WebAssembly runtime that every program of this language needs. The run reports any failure.
    fn load_ahead(&self, language: &Language);

    /// Returns true if a container engine may be available, as far as this is known without connecting to one.
    fn may_have_engine(&self) -> bool;

    /// Returns the command of a small program that waits for a byte on a descriptor and then executes another program:
    /// `PROGRAM wait DESCRIPTOR OTHER NAME ARGUMENTS...`. `None` if this machine has no such program.
    fn waiter(&self) -> Option<Command>;

    /// Pulls the image that a language, or a request, starts from, if a container backend lacks it.
    ///
    /// # Errors
    /// Returns an error if the image cannot be pulled.
    fn ensure_image<'a>(
        &'a self,
        backend: &'a BackendId,
        language: &'a Language,
        image: Option<&'a str>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Lists the images of a container engine.
    ///
    /// # Errors
    /// Returns an error if the engine does not respond.
    fn engine_images(&self, engine: &str) -> Result<Vec<EngineImage>, Failure>;

    /// Pulls an image with the named engine, or the first one that responds, and returns the engine's name.
    ///
    /// # Errors
    /// Returns an error if no engine responds, or the image cannot be pulled.
    fn pull_image(&self, engine: Option<&str>, name: &str, progress: &dyn Progress) -> Result<String, Failure>;

    /// Keeps containers ready for other processes until none are needed. `asked` contains the instructions of the
    /// process that started this one.
    ///
    /// # Errors
    /// Returns an error if the engine does not respond, or the instructions are invalid.
    fn keep(&self, engine: &str, asked: &str) -> Result<(), Failure>;

    /// Opens connections for the process at the other end of standard input, until that process closes it.
    ///
    /// # Errors
    /// Returns an error if standard input is not such a connection, or fails.
    fn connect_for_others(&self) -> Result<(), Failure>;

    /// Ends all processes that keep containers ready for this user.
    ///
    /// # Errors
    /// Returns an error if codebox's directories cannot be used.
    fn end_keepers(&self) -> Result<(), Failure>;

    /// Finds the leftovers of killed codebox processes, and removes them if `how` is [`Sweep::Remove`].
    ///
    /// # Errors
    /// Returns an error if codebox's directories cannot be used.
    fn sweep(&self, how: Sweep) -> Result<SweptPlaces, Failure>;

    /// Resolves a job's packages, and determines if they need a container. Changes only the caches of index answers and
    /// packages. The named engine, if there is one, builds the packages that have to be built.
    ///
    /// # Errors
    /// Returns an error if a package is refused, or cannot be found or built.
    fn packages(
        &self,
        admitted: &Admitted,
        engine: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<PackageNeeds, Failure>;

    /// Prepares a job's packages for the chosen backend, and returns the layers for its guest.
    ///
    /// # Errors
    /// Returns an error if the packages cannot be prepared.
    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        plan: &'a Plan,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Provided, Failure>>;

    /// Compiles the modules that `asked`, read from standard input, describes, in this process alone.
    ///
    /// # Errors
    /// Returns an error if a module cannot be compiled.
    fn compile(&self, asked: &str) -> Result<(), Failure>;

    /// Resolves a script to exact packages, writes its lock file beside it, and returns the path of that file.
    ///
    /// # Errors
    /// Returns an error if a package cannot be found, or the file cannot be written.
    fn lock(&self, admitted: &Admitted, script: &Path, progress: &dyn Progress) -> Result<PathBuf, Failure>;

    /// Lists the stored packages.
    ///
    /// # Errors
    /// Returns an error if codebox's directories cannot be used.
    fn kept_packages(&self) -> Result<Vec<KeptPackage>, Failure>;

    /// Removes the packages that no run uses now, and returns their number and the bytes that this frees. Waits for
    /// runs that are installing packages, and reports the wait.
    ///
    /// # Errors
    /// Returns an error if a package cannot be removed.
    fn prune_packages(&self, progress: &dyn Progress) -> Result<(usize, u64), Failure>;

    /// Drops all rights of the process that the job does not need, until the process ends, and returns the state of
    /// each sandbox layer.
    ///
    /// Called once, on the main thread, after the instance was opened and before it runs anything. The report lists the
    /// returned layers.
    ///
    /// # Errors
    /// Returns an error if a layer could not be set up completely; the guest is then not run.
    fn confine(&self, admitted: &Admitted, spec: &InstanceSpec, confinement: Confinement)
    -> Result<Vec<Wall>, Failure>;

    /// Runs the checks of `codebox doctor`, in the order in which they are shown.
    fn checks(&self) -> Vec<Check>;
}

/// Packages of a job, as its guest uses them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provided {
    /// Layers that contain the packages.
    pub layers: Vec<Layer>,
    /// Further notes for the user about the packages, each in one line.
    pub notes: Vec<String>,
}

/// A stored package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPackage {
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

/// Confinement of the process before it runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// The process confines itself, as far as the system supports it.
    On,
    /// The user disabled confinement; the sandbox layers are reported as off.
    Off,
}

/// An image of a container engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// Names of the image.
    pub names: Vec<String>,
    /// Digest of the image.
    pub id: String,
    /// Size on disk in bytes.
    pub size: u64,
}

/// Treatment of leftovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Leftovers are removed.
    Remove,
    /// Leftovers are only listed.
    NameOnly,
}

/// Result of a search for leftovers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweptPlaces {
    /// Leftovers that were found.
    pub left: Vec<Leftover>,
    /// Engines that should have responded but did not, with the reasons.
    pub unasked: Vec<(String, String)>,
}

/// A leftover of a killed codebox process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Kind of the leftover, such as "container".
    pub kind: String,
    /// Name of the leftover.
    pub name: String,
    /// Location: the name of an engine, or "this machine".
    pub place: String,
    /// Reason that the leftover could not be removed.
    pub kept: Option<String>,
}

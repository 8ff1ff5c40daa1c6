use std::path::{Path, PathBuf};
use std::process::Command;

use codebox_analysis::Analyzer;
use codebox_core::{Backend, BackendId, BoxFuture, InstanceSpec, Language, Layer, Wall};
use codebox_service::catalog::{Catalog, Progress};
use codebox_service::{Admitted, Check, Journal, PackageNeeds, Plan, Policy, Surroundings};

use crate::failure::Failure;

/// What the command line needs from the composition root, which alone knows every backend.
///
/// Nothing is asked for before a command needs it, so that `codebox --version` opens no file.
pub trait Host {
    /// What the user's configuration allows and prefers.
    ///
    /// # Errors
    /// When the configuration cannot be read.
    fn policy(&self) -> Result<Policy, Failure>;

    /// The environment and directories that requests are read against.
    fn surroundings(&self) -> &dyn Surroundings;

    /// What parses program text, in processes of its own; none is started before it is asked.
    ///
    /// # Errors
    /// When its directory cannot be had.
    fn analyzer(&self) -> Result<&Analyzer, Failure>;

    /// The runtimes and images.
    ///
    /// # Errors
    /// When their directories cannot be had.
    fn catalog(&self) -> Result<&dyn Catalog, Failure>;

    /// What became of accepted jobs.
    ///
    /// # Errors
    /// When its folder cannot be had.
    fn journal(&self) -> Result<&Journal, Failure>;

    /// Every way to run a job, the preferred one first; of container engines the named one alone, where one is named.
    ///
    /// # Errors
    /// When one cannot even be described, which is not the same as being unavailable.
    fn backends(&self, engine: Option<&str>) -> Result<Vec<&dyn Backend>, Failure>;

    /// Loads what a program of this language in WebAssembly needs whatever it imports. Failures are left to the run.
    fn load_ahead(&self, language: &Language);

    /// Whether an engine of containers may be there, as far as can be told without touching one.
    fn may_have_engine(&self) -> bool;

    /// The command of a small program that waits for a byte at a descriptor and becomes another: `PROGRAM wait DESCRIPTOR
    /// OTHER NAME ARGUMENTS...`. `None` if this machine has no such program.
    fn waiter(&self) -> Option<Command>;

    /// Makes sure that a container backend has the image that a language, or a request, starts from; fetches it where it
    /// is missing.
    ///
    /// # Errors
    /// When it cannot be had.
    fn ensure_image<'a>(
        &'a self,
        backend: &'a BackendId,
        language: &'a Language,
        image: Option<&'a str>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// The images that an engine has.
    ///
    /// # Errors
    /// When it does not answer.
    fn engine_images(&self, engine: &str) -> Result<Vec<EngineImage>, Failure>;

    /// Fetches an image with the named engine, or with the first that answers, and tells which that was.
    ///
    /// # Errors
    /// When no engine answers, or the image cannot be had.
    fn pull_image(&self, engine: Option<&str>, name: &str, progress: &dyn Progress) -> Result<String, Failure>;

    /// Keeps containers ready for other processes until nobody wants any; `asked` is what the process that started this one
    /// wrote for it.
    ///
    /// # Errors
    /// When the engine does not answer, or nothing can be made of what was asked.
    fn keep(&self, engine: &str, asked: &str) -> Result<(), Failure>;

    /// Connects for the process at the other end of standard input, until that is gone.
    ///
    /// # Errors
    /// When standard input is no such line, or fails.
    fn connect_for_others(&self) -> Result<(), Failure>;

    /// Ends every process that keeps containers ready for this user.
    ///
    /// # Errors
    /// When this machine's own places cannot be had.
    fn end_keepers(&self) -> Result<(), Failure>;

    /// Finds what killed processes of codebox left behind, and removes it if `how` says so.
    ///
    /// # Errors
    /// When this machine's own places cannot be had.
    fn sweep(&self, how: Sweep) -> Result<SweptPlaces, Failure>;

    /// Finds out which packages a job has, and where it can have them. Changes nothing but what is kept of indexes' answers and
    /// of packages; those that have to be built are built by the named engine, where one is named.
    ///
    /// # Errors
    /// When a package is refused, or cannot be found or built.
    fn packages(
        &self,
        admitted: &Admitted,
        engine: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<PackageNeeds, Failure>;

    /// Makes a job's packages ready where it was chosen to run, and answers what its guest is shown of them.
    ///
    /// # Errors
    /// When they cannot be had.
    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        plan: &'a Plan,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Provided, Failure>>;

    /// Does what standard input says of modules that are to be compiled, in this process alone.
    ///
    /// # Errors
    /// When it cannot be done.
    fn compile(&self, asked: &str) -> Result<(), Failure>;

    /// Chooses exact packages for a script, and writes them beside it; answers the file.
    ///
    /// # Errors
    /// When they cannot be found, or the file not be written.
    fn lock(&self, admitted: &Admitted, script: &Path, progress: &dyn Progress) -> Result<PathBuf, Failure>;

    /// The packages that are kept.
    ///
    /// # Errors
    /// When this machine's own places cannot be had.
    fn kept_packages(&self) -> Result<Vec<KeptPackage>, Failure>;

    /// Removes packages that no run uses now; answers how many, and how many bytes that frees. Waits for runs that are
    /// installing some, and tells of it.
    ///
    /// # Errors
    /// When one cannot be removed.
    fn prune_packages(&self, progress: &dyn Progress) -> Result<(usize, u64), Failure>;

    /// Gives up what the job does not need, until the process ends, and says what holds.
    ///
    /// Called once, on the main thread, after the instance was opened and before it runs anything. The
    /// walls go into the report.
    ///
    /// # Errors
    /// When a wall could not be completed; the guest is then not run.
    fn confine(&self, admitted: &Admitted, spec: &InstanceSpec, confinement: Confinement)
    -> Result<Vec<Wall>, Failure>;

    /// Everything `codebox doctor` looks at, in the order in which it is shown.
    fn checks(&self) -> Vec<Check>;
}

/// What a guest has of its job's packages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provided {
    /// What it is shown.
    pub layers: Vec<Layer>,
    /// What there is to say about them that was not said when they were looked for, each in one line.
    pub notes: Vec<String>,
}

/// A package that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPackage {
    /// Its name.
    pub name: String,
    /// What it came as: a wheel's file name, or the name and version in a registry.
    pub file: String,
    /// The digest of what it came as, after the digest's name: `sha256-…`.
    pub content: String,
    /// Bytes on disk.
    pub size: u64,
    /// What it was made ready for.
    pub targets: Vec<String>,
    /// The source distribution that it was built of, if it was: its file and its digest.
    pub origin: Option<(String, String)>,
}

/// Whether the process confines itself before it runs a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confinement {
    /// It does, as far as the system can.
    On,
    /// It does not, because the user said so; the walls are reported as off.
    Off,
}

/// An image of a container engine's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineImage {
    /// Its names.
    pub names: Vec<String>,
    /// Its digest.
    pub id: String,
    /// Bytes on disk.
    pub size: u64,
}

/// Whether leftovers are removed or only named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// They are removed.
    Remove,
    /// They are named and left.
    NameOnly,
}

/// What was found, and where nobody could look.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweptPlaces {
    /// What was left.
    pub left: Vec<Leftover>,
    /// Engines that should answer and do not, and why.
    pub unasked: Vec<(String, String)>,
}

/// Something that a killed process of codebox left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// What it is: "container".
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Where: an engine's name, or "this machine".
    pub place: String,
    /// Why it is still there, if it could not be removed.
    pub kept: Option<String>,
}

//! Catalog of installed runtimes and images, which the composition root implements.

use std::path::{Path, PathBuf};

use codebox_core::Language;

use crate::doctor::Check;
use crate::image_choice::ImageFacts;

mod error;

pub use error::CatalogError;

/// Receiver of progress of a long operation. Called often, from the thread that does the work; implementations must be
/// fast.
pub trait Progress: Send + Sync {
    /// Reports that a step over `what` begins, with its size if it is known.
    ///
    /// Called again when a broken transfer restarts; the count then restarts at 0.
    fn started(&self, what: &str, total_bytes: Option<u64>);

    /// Reports that this many more bytes are done.
    fn advanced(&self, bytes: u64);

    /// Reports that the step is complete. Not called if the step failed.
    fn finished(&self);

    /// Reports an event in one line, such as another process that is installing, or a skipped index.
    fn note(&self, line: &str);
}

/// Progress receiver that ignores every report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str, _total_bytes: Option<u64>) {}
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
    fn note(&self, _line: &str) {}
}

/// Source of a runtime's package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PackageSource {
    /// The user's package index.
    #[default]
    Index,
    /// A local file.
    File(PathBuf),
}

/// State of a catalog entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// Installed and usable.
    Installed,
    /// Not installed; the first use installs it.
    Missing,
    /// Installed but not usable, for this reason.
    Damaged(String),
}

/// A guest runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeEntry {
    /// Name of the runtime.
    pub name: String,
    /// Version of its package.
    pub version: String,
    /// Language that it runs.
    pub language: Language,
    /// Version of the language, if known.
    pub language_version: Option<String>,
    /// State of the installation.
    pub state: EntryState,
    /// Folder of the runtime, if installed.
    pub path: Option<PathBuf>,
    /// Size on disk in bytes, if installed.
    pub size: Option<u64>,
}

/// Origin of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageOrigin {
    /// Part of its runtime.
    BuiltIn,
    /// Built by the user.
    User,
}

/// A memory image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEntry {
    /// Name of the image.
    pub name: String,
    /// Runtime that the image belongs to.
    pub runtime: String,
    /// Modules that the image has already imported.
    pub imports: Vec<String>,
    /// State of the installation.
    pub state: EntryState,
    /// Image file, if installed.
    pub path: Option<PathBuf>,
    /// Size on disk in bytes, if installed.
    pub size: Option<u64>,
    /// Origin of the image.
    pub origin: ImageOrigin,
}

impl ImageEntry {
    /// Returns the properties by which an image is chosen.
    #[must_use]
    pub fn facts(&self) -> ImageFacts {
        ImageFacts { name: self.name.clone(), imports: self.imports.clone(), size: self.size.unwrap_or(0) }
    }
}

/// Result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The entry was removed.
    Removed,
    /// No such entry was installed.
    NothingThere,
}

/// Runtimes and images on this machine.
///
/// Every method may block for as long as its work takes; call none from an async task. An interrupted method leaves no
/// partial state. If two processes install the same entry, one waits for the other.
pub trait Catalog: Send + Sync {
    /// Lists every known runtime, installed or not. Reads only directory entries.
    ///
    /// # Errors
    /// Returns an error if the state directory cannot be read.
    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError>;

    /// Installs a runtime unless it is already installed; an installed runtime costs no work.
    ///
    /// # Errors
    /// Returns an error if the runtime is unknown or cannot be installed.
    fn ensure(&self, runtime: &str, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError>;

    /// Installs the runtime of a language unless it is already installed, as [`ensure`](Self::ensure) does.
    ///
    /// # Errors
    /// Returns an error if the language has no runtime, or the runtime cannot be installed.
    fn ensure_language(&self, language: &Language, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError>;

    /// Adds a component as the runtime of its own language, for files with these extensions, without the dot.
    ///
    /// Replaces a runtime that was added for the same language, unless the new one cannot be used.
    ///
    /// # Errors
    /// Returns an error if the file is not a component that implements the contract, the language has a built-in
    /// runtime, or an extension belongs to another language.
    fn add(
        &self,
        file: &Path,
        language: &Language,
        endings: &[String],
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError>;

    /// Installs a runtime, and replaces an installed one.
    ///
    /// # Errors
    /// Returns an error if the runtime is unknown, or its package is missing, wrong or unusable. The installed runtime
    /// is then kept.
    fn install(
        &self,
        runtime: &str,
        from: &PackageSource,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError>;

    /// Reads a runtime and its images completely and compares them with the digests recorded at installation.
    ///
    /// # Errors
    /// Returns an error if the runtime is unknown or cannot be read. Damage is a finding and not an error.
    fn verify(&self, runtime: &str) -> Result<Vec<Check>, CatalogError>;

    /// Removes a runtime and its images. A removed runtime that the user added is no longer known.
    ///
    /// # Errors
    /// Returns an error if the runtime is unknown or cannot be removed.
    fn remove(&self, runtime: &str) -> Result<Removal, CatalogError>;

    /// Lists every known image, built or not; with `language` only the images of its runtime.
    ///
    /// # Errors
    /// Returns an error if the state directory cannot be read.
    fn images(&self, language: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError>;

    /// Builds an image that has these modules imported.
    ///
    /// # Errors
    /// Returns an error if the name cannot be used or a module cannot be imported.
    fn build_image(&self, name: &str, imports: &[String], progress: &dyn Progress) -> Result<ImageEntry, CatalogError>;

    /// Removes an image.
    ///
    /// # Errors
    /// Returns an error if the image is part of a runtime or cannot be removed.
    fn remove_image(&self, name: &str) -> Result<Removal, CatalogError>;
}

//! The runtimes and images that are installed, as the program that puts codebox together offers them.

use std::path::{Path, PathBuf};

use codebox_core::Language;

use crate::doctor::Check;
use crate::image_choice::ImageFacts;

mod error;

pub use error::CatalogError;

/// Hears how far a long step has come. Called often, from the thread that does the work: be quick.
pub trait Progress: Send + Sync {
    /// A step over `what` begins, `total_bytes` long where that is known.
    ///
    /// Called again when a broken transfer starts over; the count then begins at 0 again.
    fn started(&self, what: &str, total_bytes: Option<u64>);

    /// This many more bytes are done.
    fn advanced(&self, bytes: u64);

    /// The step is complete. Not called when it failed.
    fn finished(&self);

    /// Something worth a line: that another process is installing, that an index was skipped.
    fn note(&self, line: &str);
}

/// Nobody is watching.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str, _total_bytes: Option<u64>) {}
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
    fn note(&self, _line: &str) {}
}

/// Where a runtime's package comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PackageSource {
    /// The user's package index.
    #[default]
    Index,
    /// A file that the user already has.
    File(PathBuf),
}

/// Whether an entry can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// It can.
    Installed,
    /// It is not there yet; the first use installs it.
    Missing,
    /// It is there and cannot be used, for this reason.
    Damaged(String),
}

/// A guest runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeEntry {
    /// Its name.
    pub name: String,
    /// The version of its package.
    pub version: String,
    /// The language that it runs.
    pub language: Language,
    /// The language's version, where it is known.
    pub language_version: Option<String>,
    /// Whether it can be used.
    pub state: EntryState,
    /// Its folder, if it is there.
    pub path: Option<PathBuf>,
    /// Bytes on disk, if it is there.
    pub size: Option<u64>,
}

/// Who made an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageOrigin {
    /// It comes with its runtime.
    BuiltIn,
    /// The user built it.
    User,
}

/// A memory image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEntry {
    /// Its name.
    pub name: String,
    /// The runtime that it is an image of.
    pub runtime: String,
    /// The modules that it has already imported.
    pub imports: Vec<String>,
    /// Whether it can be used.
    pub state: EntryState,
    /// Its file, if it is there.
    pub path: Option<PathBuf>,
    /// Bytes on disk, if it is there.
    pub size: Option<u64>,
    /// Who made it.
    pub origin: ImageOrigin,
}

impl ImageEntry {
    /// What the choice of an image goes by.
    #[must_use]
    pub fn facts(&self) -> ImageFacts {
        ImageFacts { name: self.name.clone(), imports: self.imports.clone(), size: self.size.unwrap_or(0) }
    }
}

/// What a removal found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It is gone now.
    Removed,
    /// There was nothing to remove.
    NothingThere,
}

/// Runtimes and images on this machine.
///
/// Every method may block for as long as its work takes; none may be called from an async task. What is
/// interrupted leaves nothing half-done, and of two processes that install the same thing one waits.
pub trait Catalog: Send + Sync {
    /// Every runtime that is known, installed or not. Reads no more than folders' entries.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError>;

    /// Makes sure that a runtime is there; the first use installs it. Costs nothing when it is.
    ///
    /// # Errors
    /// When it is unknown, or cannot be installed.
    fn ensure(&self, runtime: &str, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError>;

    /// Makes sure that the runtime of a language is there, as [`ensure`](Self::ensure) does.
    ///
    /// # Errors
    /// When the language has none, or it cannot be installed.
    fn ensure_language(&self, language: &Language, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError>;

    /// Adds a component as the runtime of a language of its own, for files with these endings, without the dot.
    ///
    /// One that was added for the same language is replaced; where the new one cannot be used, it stays.
    ///
    /// # Errors
    /// When the file is no component that keeps to the contract, the language has a runtime of codebox's, or an ending is
    /// another's.
    fn add(
        &self,
        file: &Path,
        language: &Language,
        endings: &[String],
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError>;

    /// Installs a runtime anew, whether or not it is there.
    ///
    /// # Errors
    /// When it is unknown, or its package is missing, wrong or unusable. What was there before then stays.
    fn install(
        &self,
        runtime: &str,
        from: &PackageSource,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError>;

    /// Reads all of a runtime and its images and compares it with what was installed.
    ///
    /// # Errors
    /// When it is unknown or cannot be read; damage is a finding.
    fn verify(&self, runtime: &str) -> Result<Vec<Check>, CatalogError>;

    /// Removes a runtime and its images; one that was added is not known any more then.
    ///
    /// # Errors
    /// When it is unknown or cannot be removed.
    fn remove(&self, runtime: &str) -> Result<Removal, CatalogError>;

    /// Every image that is known, built or not; of one language's runtime only where it is given.
    ///
    /// # Errors
    /// When the state directory cannot be read.
    fn images(&self, language: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError>;

    /// Builds an image that has these modules imported.
    ///
    /// # Errors
    /// When the name cannot be used, or a module cannot be imported.
    fn build_image(&self, name: &str, imports: &[String], progress: &dyn Progress) -> Result<ImageEntry, CatalogError>;

    /// Removes an image.
    ///
    /// # Errors
    /// When it comes with a runtime, or cannot be removed.
    fn remove_image(&self, name: &str) -> Result<Removal, CatalogError>;
}

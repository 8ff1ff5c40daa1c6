//! Catalog of installed runtimes and images, which the composition root implements.

use std::path::{Path, PathBuf};

use codebox_core::{Language, Preparation, Progress};

use crate::doctor::Check;
use crate::image_choice::ImageFacts;

mod error;
mod no_runtimes;

pub use error::CatalogError;
pub use no_runtimes::NoRuntimes;

/// Source of a runtime's package.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PackageSource {
    /// The user's package index.
    #[default]
    Index,
    /// A local file.
    File(PathBuf),
}

/// Description of a language that is added with its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Description {
    /// The language's name and the extensions of its files, without the dot.
    Name {
        /// Language.
        language: Language,
        /// File name extensions.
        extensions: Vec<String>,
    },
    /// A `runtime.toml` with one `[[language]]` table.
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
    /// Made for programs that start with the same imports and run repeatedly. No other program can start from it.
    Automatic,
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
        let is_offered = self.origin == ImageOrigin::BuiltIn || self.state == EntryState::Installed;
        ImageFacts { name: self.name.clone(), imports: self.imports.clone(), size: self.size, is_offered }
    }
}

/// Library of an installed runtime, as input of package resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeLibrary {
    /// Version of the language.
    pub version: String,
    /// Key under which bytecode for this runtime is stored.
    pub key: String,
    /// Archive or directory of the library, with the bundled packages.
    pub archive: PathBuf,
}

/// Package that a runtime bundles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundledPackage {
    /// Name of the package.
    pub name: String,
    /// Version of the package.
    pub version: String,
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

    /// Installs and prepares all of a runtime, unless that is done; a complete runtime costs no work.
    ///
    /// # Errors
    /// Returns an error if the runtime is unknown or cannot be installed.
    fn ensure(&self, runtime: &str, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError>;

    /// Installs the runtime of a language, and prepares the required contents of it, unless that is done.
    ///
    /// # Errors
    /// Returns an error if the language has no runtime, or the runtime cannot be installed or prepared.
    fn ensure_language(
        &self,
        language: &Language,
        required: Preparation<'_>,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError>;

    /// Returns true if the runtime of a language is installed, and the required contents of it are prepared.
    fn is_ready(&self, language: &Language, required: Preparation<'_>) -> bool;

    /// Returns the library of a language's runtime, which is installed if necessary.
    ///
    /// # Errors
    /// Returns an error if the language has no runtime, or the runtime cannot be installed.
    fn library(&self, language: &Language, progress: &dyn Progress) -> Result<RuntimeLibrary, CatalogError>;

    /// Returns the package of a module that a language's runtime bundles.
    fn bundled_package(&self, language: &Language, module: &str) -> Option<BundledPackage>;

    /// Returns all packages that the runtime of a language bundles, by name.
    fn bundled_packages(&self, language: &Language) -> Vec<BundledPackage>;

    /// Adds a component as the runtime of its own language.
    ///
    /// Replaces a runtime that was added for the same language, unless the new one cannot be used.
    ///
    /// # Errors
    /// Returns an error if the file is not a component that implements the contract, the description is malformed, the
    /// language has a built-in runtime, or an extension belongs to another language.
    fn add(
        &self,
        file: &Path,
        description: &Description,
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

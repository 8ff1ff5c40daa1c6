//! Catalog of a build without the WebAssembly tier.

use std::path::Path;

use codebox_core::{Language, Preparation, Progress};

use super::{
    BundledPackage, Catalog, CatalogError, Description, ImageEntry, PackageSource, Removal, RuntimeEntry,
    RuntimeLibrary,
};
use crate::doctor::Check;

/// Catalog without any runtime. Lists are empty, and every other operation fails: no runtime or image has that name.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoRuntimes;

impl Catalog for NoRuntimes {
    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError> {
        Ok(Vec::new())
    }

    fn ensure(&self, runtime: &str, _progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        Err(unknown_runtime(runtime))
    }

    fn ensure_language(
        &self,
        language: &Language,
        _required: Preparation<'_>,
        _progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        Err(unknown_runtime(language.as_str()))
    }

    fn is_ready(&self, _language: &Language, _required: Preparation<'_>) -> bool {
        false
    }

    fn library(&self, language: &Language, _progress: &dyn Progress) -> Result<RuntimeLibrary, CatalogError> {
        Err(unknown_runtime(language.as_str()))
    }

    fn bundled_package(&self, _language: &Language, _module: &str) -> Option<BundledPackage> {
        None
    }

    fn bundled_packages(&self, _language: &Language) -> Vec<BundledPackage> {
        Vec::new()
    }

    fn add(
        &self,
        file: &Path,
        _description: &Description,
        _progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        let reason = "this build has no WebAssembly tier".to_owned();
        Err(CatalogError::NoRuntime { file: file.to_owned(), reason })
    }

    fn install(
        &self,
        runtime: &str,
        _from: &PackageSource,
        _progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        Err(unknown_runtime(runtime))
    }

    fn verify(&self, runtime: &str) -> Result<Vec<Check>, CatalogError> {
        Err(unknown_runtime(runtime))
    }

    fn remove(&self, runtime: &str) -> Result<Removal, CatalogError> {
        Err(unknown_runtime(runtime))
    }

    fn images(&self, _language: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError> {
        Ok(Vec::new())
    }

    fn build_image(
        &self,
        name: &str,
        _imports: &[String],
        _progress: &dyn Progress,
    ) -> Result<ImageEntry, CatalogError> {
        Err(unknown_image(name))
    }

    fn remove_image(&self, name: &str) -> Result<Removal, CatalogError> {
        Err(unknown_image(name))
    }
}

fn unknown_runtime(name: &str) -> CatalogError {
    CatalogError::UnknownRuntime { name: name.to_owned(), known: Vec::new() }
}

fn unknown_image(name: &str) -> CatalogError {
    CatalogError::UnknownImage { name: name.to_owned(), known: Vec::new() }
}

//! The memory images of a prepared runtime, the user's own among them.

use std::fs;

use crate::error::WasmError;
use crate::store::Store;
use crate::store::entry::{Manifest, image_file};
use crate::store::lock::StoreLock;

/// A memory image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEntry {
    /// Its name.
    pub name: String,
    /// Modules that are imported in it.
    pub imports: Vec<String>,
    /// Bytes of memory that it holds.
    pub size: u64,
    /// The sha256 of those bytes.
    pub sha256: String,
    /// Whether it came with the runtime, and not from the user.
    pub built_in: bool,
}

impl Store {
    /// The images of this runtime, smallest first; none when it is not prepared.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] when the list of them cannot be read.
    pub fn images(&self) -> Result<Vec<ImageEntry>, WasmError> {
        let dir = self.prepared_dir();
        let Some(manifest) = Manifest::read(&dir)? else { return Ok(Vec::new()) };
        let mut images: Vec<_> = manifest
            .images
            .into_iter()
            .map(|(name, facts)| {
                let file = image_file(&name);
                ImageEntry {
                    built_in: self.spec.image.iter().any(|recipe| recipe.name == name),
                    size: fs::metadata(dir.join(&file)).map_or(0, |meta| meta.len()),
                    sha256: manifest.seals.get(&file).map(|seal| seal.sha256.clone()).unwrap_or_default(),
                    imports: facts.imports,
                    name,
                }
            })
            .collect();
        images.sort_by_key(|image| image.size);
        Ok(images)
    }

    /// Makes an image of the user's own, with these modules imported on top of the first image's.
    ///
    /// # Errors
    /// [`WasmError::Prelude`] with the guest's own words when a module cannot be imported, [`WasmError::Limit`] when
    /// the name is taken by a built-in image or is none.
    pub fn build_image(&self, name: &str, imports: &[String]) -> Result<ImageEntry, WasmError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(WasmError::Limit(format!(
                "an image cannot be named {name:?}: use letters, digits, - and _ only"
            )));
        }
        if self.spec.image.iter().any(|recipe| recipe.name == name) {
            return Err(WasmError::Limit(format!("the name {name} belongs to a built-in image: choose another")));
        }
        let mut all = self.spec.imports_of(&self.spec.image[0].name);
        all.extend(imports.iter().filter(|name| !self.spec.image[0].imports.contains(name)).cloned());
        self.add_image(name, &all)?;
        let made = self.images()?.into_iter().find(|image| image.name == name);
        made.ok_or_else(|| WasmError::damaged(&self.prepared_dir(), format!("it lost the image {name}")))
    }

    /// Removes one of the user's own images; tells whether there was one.
    ///
    /// # Errors
    /// [`WasmError::Limit`] when it is a built-in one, [`WasmError::Io`] when it cannot be removed.
    pub fn remove_image(&self, name: &str) -> Result<bool, WasmError> {
        if self.spec.image.iter().any(|recipe| recipe.name == name) {
            return Err(WasmError::Limit(format!("the image {name} is built in: remove the runtime instead")));
        }
        let _lock = StoreLock::take(&self.dirs.data, || ())?;
        let dir = self.prepared_dir();
        let Some(mut manifest) = Manifest::read(&dir)? else { return Ok(false) };
        if manifest.images.remove(name).is_none() {
            return Ok(false);
        }
        let file = image_file(name);
        manifest.seals.remove(&file);
        manifest.write(&dir)?;
        let path = dir.join(file);
        fs::remove_file(&path).map_err(WasmError::io("remove", &path))?;
        Ok(true)
    }
}

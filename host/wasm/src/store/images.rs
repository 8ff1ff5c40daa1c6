//! The memory images of a prepared runtime, including the user's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::error::WasmError;
use crate::store::Store;
use crate::store::automatic::is_automatic;
use crate::store::lock::StoreLock;
use crate::store::manifest::{Manifest, image_file};
use crate::store::seal::{Durability, write_atomic};

/// A memory image of a prepared runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageEntry {
    /// The image's name.
    pub name: String,
    /// Modules that the image has imported.
    pub imports: Vec<String>,
    /// The image's file.
    pub path: PathBuf,
    /// Bytes of memory in the image.
    pub size: u64,
    /// The sha256 of the image's bytes.
    pub sha256: String,
    /// True if the image comes with the runtime.
    pub built_in: bool,
    /// True if the image was made for programs that run repeatedly.
    pub automatic: bool,
}

impl Store {
    /// Returns the images of this runtime, smallest first. Empty if the runtime is not prepared.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the list of images cannot be read.
    pub fn images(&self) -> Result<Vec<ImageEntry>, WasmError> {
        let dir = self.prepared_dir();
        let Some(manifest) = self.prepared()? else { return Ok(Vec::new()) };
        let mut images: Vec<_> = manifest
            .images
            .iter()
            .map(|(name, facts)| {
                let (name, facts) = (name.clone(), facts.clone());
                let file = image_file(&name);
                let path = manifest.path(&dir, &file);
                ImageEntry {
                    automatic: is_automatic(&name),
                    built_in: self.spec.image.iter().any(|recipe| recipe.name == name),
                    size: fs::metadata(&path).map_or(0, |meta| meta.len()),
                    path,
                    sha256: manifest.seals.get(&file).map(|seal| seal.sha256.clone()).unwrap_or_default(),
                    imports: facts.imports,
                    name,
                }
            })
            .collect();
        images.sort_by_key(|image| image.size);
        Ok(images)
    }

    /// Makes an image of the user's own, with these modules imported in addition to those of the first image.
    ///
    /// # Errors
    /// [`WasmError::Prelude`] with the guest's own message if a module cannot be imported.
    pub fn build_image(&self, name: &str, imports: &[String]) -> Result<ImageEntry, WasmError> {
        let mut all = self.spec.imports_of(&self.spec.image[0].name);
        all.extend(imports.iter().filter(|name| !self.spec.image[0].imports.contains(name)).cloned());
        self.add_image(name, &all)?;
        let made = self.images()?.into_iter().find(|image| image.name == name);
        made.ok_or_else(|| WasmError::damaged(&self.prepared_dir(), format!("image {name} is missing")))
    }

    /// Removes one of the user's own images. Returns true if it existed.
    ///
    /// # Errors
    /// [`WasmError::Io`] if the image cannot be removed.
    pub fn remove_image(&self, name: &str) -> Result<bool, WasmError> {
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        self.invalidate();
        let dir = self.prepared_dir();
        let Some(mut manifest) = Manifest::read(&dir)? else { return Ok(false) };
        if manifest.images.remove(name).is_none() {
            return Ok(false);
        }
        let file = image_file(name);
        manifest.seals.remove(&file);
        manifest.write(&dir)?;
        self.store_recipe(name, None)?;
        self.forget_uses(name);
        let path = dir.join(file);
        fs::remove_file(&path).map_err(WasmError::io("remove", &path))?;
        Ok(true)
    }

    /// Returns the user's own images by name, with the modules that each imports. They are made again for every new
    /// version.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the list cannot be read.
    pub fn user_recipes(&self) -> Result<BTreeMap<String, Vec<String>>, WasmError> {
        let path = self.recipes();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| WasmError::damaged(&path, e.to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(e) => Err(WasmError::io("read", &path)(e)),
        }
    }

    /// Stores the recipe of one of the user's own images, or removes it.
    pub(crate) fn store_recipe(&self, name: &str, imports: Option<&[String]>) -> Result<(), WasmError> {
        let path = self.recipes();
        let mut recipes = self.user_recipes()?;
        match imports {
            Some(imports) => recipes.insert(name.to_owned(), imports.to_vec()),
            None => recipes.remove(name),
        };
        let bytes = serde_json::to_vec_pretty(&recipes).map_err(|e| WasmError::damaged(&path, e.to_string()))?;
        write_atomic(&path, &bytes, Durability::Durable)
    }

    fn recipes(&self) -> PathBuf {
        self.dirs.data.join(format!("{}-images.json", self.spec.name))
    }
}

//! The memory images of a prepared runtime, the user's own among them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::error::WasmError;
use crate::store::Store;
use crate::store::entry::{Manifest, image_file};
use crate::store::lock::StoreLock;
use crate::store::seal::write_whole;

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
        let Some(manifest) = self.prepared()? else { return Ok(Vec::new()) };
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
    /// [`WasmError::Prelude`] with the guest's own words when a module cannot be imported.
    pub fn build_image(&self, name: &str, imports: &[String]) -> Result<ImageEntry, WasmError> {
        let mut all = self.spec.imports_of(&self.spec.image[0].name);
        all.extend(imports.iter().filter(|name| !self.spec.image[0].imports.contains(name)).cloned());
        self.add_image(name, &all)?;
        let made = self.images()?.into_iter().find(|image| image.name == name);
        made.ok_or_else(|| WasmError::damaged(&self.prepared_dir(), format!("it lost the image {name}")))
    }

    /// Removes one of the user's own images; tells whether there was one.
    ///
    /// # Errors
    /// [`WasmError::Io`] when it cannot be removed.
    pub fn remove_image(&self, name: &str) -> Result<bool, WasmError> {
        let _lock = StoreLock::take(&self.dirs.data, || ())?;
        self.forget();
        let dir = self.prepared_dir();
        let Some(mut manifest) = Manifest::read(&dir)? else { return Ok(false) };
        if manifest.images.remove(name).is_none() {
            return Ok(false);
        }
        let file = image_file(name);
        manifest.seals.remove(&file);
        manifest.write(&dir)?;
        self.keep_recipe(name, None)?;
        let path = dir.join(file);
        fs::remove_file(&path).map_err(WasmError::io("remove", &path))?;
        Ok(true)
    }

    /// The user's own images by name, with the modules each imports: they are made again with every new version.
    pub(crate) fn own_recipes(&self) -> Result<BTreeMap<String, Vec<String>>, WasmError> {
        let path = self.recipes();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| WasmError::damaged(&path, e.to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(e) => Err(WasmError::io("read", &path)(e)),
        }
    }

    /// Remembers, or forgets, one of the user's own images.
    pub(crate) fn keep_recipe(&self, name: &str, imports: Option<&[String]>) -> Result<(), WasmError> {
        let path = self.recipes();
        let mut recipes = self.own_recipes()?;
        match imports {
            Some(imports) => recipes.insert(name.to_owned(), imports.to_vec()),
            None => recipes.remove(name),
        };
        let bytes = serde_json::to_vec_pretty(&recipes).map_err(|e| WasmError::damaged(&path, e.to_string()))?;
        write_whole(&path, &bytes)
    }

    fn recipes(&self) -> PathBuf {
        self.dirs.data.join(format!("{}-images.json", self.spec.name))
    }
}

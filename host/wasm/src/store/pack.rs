//! Packs a prepared runtime for an installation.

use std::fs;
use std::path::Path;

use codebox_core::Progress;

use crate::code::CodeLevel;
use crate::engine::Engine;
use crate::error::WasmError;
use crate::store::install::remove_dir;
use crate::store::manifest::{INITIAL_IMAGE_FILE, MANIFEST_FILE, MODULE_FILE, Manifest, image_file};
use crate::store::prepare::Preparer;
use crate::store::{Installation, Store};
use crate::sys::make_public;

impl Store {
    /// Writes the runtime, its images and its code for each level into the directory of an installation. All of the runtime
    /// must be prepared.
    ///
    /// # Errors
    /// [`WasmError::Damaged`] if the runtime is not prepared, [`WasmError::Io`] if a file cannot be written.
    pub fn pack(
        &self,
        installation: &Installation,
        levels: &[CodeLevel],
        progress: &dyn Progress,
    ) -> Result<(), WasmError> {
        let prepared = self.prepared()?;
        let prepared = prepared.ok_or_else(|| WasmError::damaged(&self.prepared_dir(), "not prepared"))?;
        self.pack_runtime(&installation.runtime_dir(self))?;
        self.pack_images(&prepared, &installation.images_dir(self))?;
        for level in levels {
            let dir = installation.code_dir(self, *level);
            match level {
                CodeLevel::Native => self.pack_own_code(&prepared, &dir)?,
                _ => self.pack_code(&prepared, *level, &dir, progress)?,
            }
        }
        Ok(())
    }

    /// Copies the files that guests read. The module is needed only to compile it, and the root directory is made at the first
    /// use.
    fn pack_runtime(&self, into: &Path) -> Result<(), WasmError> {
        let from = self.own_runtime_dir();
        let mut manifest = Manifest::read(&from)?.ok_or_else(|| WasmError::damaged(&from, "not installed"))?;
        manifest.seals.remove(MODULE_FILE);
        remove_dir(into)?;
        copy_tree(&from, into, &|name| ![MODULE_FILE, MANIFEST_FILE, "root"].contains(&name))?;
        write_manifest(manifest, into)
    }

    fn pack_images(&self, prepared: &Manifest, into: &Path) -> Result<(), WasmError> {
        let is_built_in = |image: &str| self.spec.image.iter().any(|recipe| recipe.name == image);
        let mut manifest = Manifest { facts: prepared.facts.clone(), ..Manifest::default() };
        manifest.images.extend(prepared.images.clone().into_iter().filter(|(image, _)| is_built_in(image)));
        let names = manifest.images.keys().map(|image| image_file(image)).chain([INITIAL_IMAGE_FILE.to_owned()]);
        self.pack_files(prepared, names.collect::<Vec<_>>(), manifest, into)
    }

    /// Copies the code that is compiled for this machine's processor.
    fn pack_own_code(&self, prepared: &Manifest, into: &Path) -> Result<(), WasmError> {
        let is_code = |name: &&String| Path::new(name).extension().is_some_and(|extension| extension == "cwasm");
        let names = prepared.seals.keys().filter(is_code).cloned().collect::<Vec<_>>();
        self.pack_files(prepared, names, Manifest::default(), into)
    }

    /// Copies prepared files and writes their manifest.
    fn pack_files(
        &self,
        prepared: &Manifest,
        names: Vec<String>,
        mut manifest: Manifest,
        into: &Path,
    ) -> Result<(), WasmError> {
        remove_dir(into)?;
        create_public_dir(into)?;
        for name in names {
            let path = prepared.path(&self.prepared_dir(), &name);
            let seal = prepared.seals.get(&name).ok_or_else(|| WasmError::damaged(&path, "not prepared"))?;
            copy_file(&path, &into.join(&name))?;
            manifest.seals.insert(name, seal.clone());
        }
        write_manifest(manifest, into)
    }

    /// Compiles all code for a level.
    fn pack_code(
        &self,
        prepared: &Manifest,
        level: CodeLevel,
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), WasmError> {
        remove_dir(into)?;
        create_public_dir(into)?;
        let store = self.with_engine(Engine::for_level(level)?);
        progress.note(&format!("compiling {} for {level}", self.spec.name));
        // The memory exists already.
        let mut manifest = Manifest::default();
        let initial = prepared.seals.get(INITIAL_IMAGE_FILE).cloned();
        manifest.seals.extend(initial.map(|seal| (INITIAL_IMAGE_FILE.to_owned(), seal)));
        let mut manifest = Preparer::new(&store, progress, into.to_owned(), manifest).compile_all()?;
        manifest.seals.remove(INITIAL_IMAGE_FILE);
        for name in manifest.seals.keys() {
            let path = into.join(name);
            make_public(&path).map_err(WasmError::io("make readable", &path))?;
        }
        write_manifest(manifest, into)
    }
}

/// Writes the manifest of files whose identities are not known until they are installed.
fn write_manifest(mut manifest: Manifest, dir: &Path) -> Result<(), WasmError> {
    for seal in manifest.seals.values_mut() {
        *seal = seal.of_copy();
    }
    manifest.write(dir)?;
    let path = dir.join(MANIFEST_FILE);
    make_public(&path).map_err(WasmError::io("make readable", &path))
}

fn create_public_dir(dir: &Path) -> Result<(), WasmError> {
    fs::create_dir_all(dir).and_then(|()| make_public(dir)).map_err(WasmError::io("create", dir))
}

fn copy_file(from: &Path, to: &Path) -> Result<(), WasmError> {
    fs::copy(from, to).and_then(|_| make_public(to)).map_err(WasmError::io("copy", from))
}

/// Copies the entries of a directory whose names are accepted, and all entries of its directories.
fn copy_tree(from: &Path, into: &Path, accepts: &dyn Fn(&str) -> bool) -> Result<(), WasmError> {
    create_public_dir(into)?;
    for entry in fs::read_dir(from).map_err(WasmError::io("list", from))? {
        let entry = entry.map_err(WasmError::io("list", from))?;
        let (path, to) = (entry.path(), into.join(entry.file_name()));
        let kind = entry.file_type().map_err(WasmError::io("inspect", &path))?;
        if entry.file_name().to_str().is_some_and(|name| !accepts(name)) {
            continue;
        }
        match kind.is_dir() {
            true => copy_tree(&path, &to, &|_| true)?,
            false => copy_file(&path, &to)?,
        }
    }
    Ok(())
}

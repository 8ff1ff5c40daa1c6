//! Installs a runtime from its unpacked package, and prepares its code and images.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use codebox_core::Progress;
use codebox_files::private_dir;

use crate::code::{CodeImage, Patch, Plan, apply, split};
use crate::component::ComponentCode;
use crate::error::WasmError;
use crate::image::{ImageBuilder, ImageFacts};
use crate::store::entry::{CODE_FILE, INITIAL_IMAGE_FILE, Manifest, code_file, data_dir, image_file, part_file};
use crate::store::lock::StoreLock;
use crate::store::seal::{Seal, write_atomic};
use crate::store::{RuntimeState, Store};
use crate::sys::make_private;

/// File name of an installed runtime's module.
const MODULE_FILE: &str = "module.wasm";

impl Store {
    /// Makes the runtime ready to use and fetches it if it is missing.
    ///
    /// `fetch` is called at most once, with the directory into which the package has to be unpacked. If another process
    /// does the same, the call waits for that process and uses its result.
    ///
    /// # Errors
    /// The error of `fetch`, or the error of the installation. No incomplete runtime remains.
    pub fn ensure<E: From<WasmError>>(
        &self,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.state() == RuntimeState::Ready {
            return Ok(());
        }
        self.make_dirs()?;
        let _lock = StoreLock::acquire(&self.dirs.data, || progress.note("waiting for another process"))?;
        match self.state() {
            RuntimeState::Ready => return Ok(()),
            RuntimeState::Unprepared => {}
            RuntimeState::Damaged(why) => return Err(WasmError::damaged(&self.runtime_dir(), why).into()),
            RuntimeState::Missing => self.install(progress, fetch)?,
        }
        Ok(self.prepare(progress)?)
    }

    /// Installs the runtime again, regardless of its state.
    ///
    /// # Errors
    /// As for [`ensure`](Self::ensure). An installed runtime stays unchanged if the new one cannot be fetched.
    pub fn reinstall<E: From<WasmError>>(
        &self,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        self.make_dirs()?;
        let _lock = StoreLock::acquire(&self.dirs.data, || progress.note("waiting for another process"))?;
        self.invalidate();
        self.install(progress, fetch)?;
        let prepared = self.prepared_dir();
        remove_dir(&prepared)?;
        Ok(self.prepare(progress)?)
    }

    /// Removes the runtime, its code and its images. Returns true if any of them existed.
    ///
    /// # Errors
    /// [`WasmError::Io`] if a directory cannot be removed.
    pub fn remove(&self) -> Result<bool, WasmError> {
        if !self.runtime_dir().exists() && !self.prepared_dir().exists() {
            return Ok(false);
        }
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        self.invalidate();
        remove_dir(&self.runtime_dir())?;
        let prepared = self.dirs.cache.join("prepared");
        let Ok(entries) = fs::read_dir(&prepared) else { return Ok(true) };
        let prefix = format!("{}-", self.spec.folder());
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                remove_dir(&entry.path())?;
            }
        }
        Ok(true)
    }

    /// Checks the digest of every installed and prepared file. Returns the number of files.
    ///
    /// # Errors
    /// The error of the first file that differs from the installed one.
    pub fn verify(&self) -> Result<usize, WasmError> {
        let mut checked = 0;
        for dir in [self.runtime_dir(), self.prepared_dir()] {
            let Some(manifest) = Manifest::read(&dir)? else { continue };
            for (name, seal) in &manifest.seals {
                seal.verify(&dir.join(name))?;
                checked += 1;
            }
        }
        Ok(checked)
    }

    fn install<E: From<WasmError>>(
        &self,
        progress: &dyn Progress,
        fetch: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<(), E> {
        let target = self.runtime_dir();
        let parent = self.dirs.data.join("runtimes");
        private_dir(&parent).map_err(WasmError::io("create", &parent))?;
        remove_incomplete_dirs(&parent);
        let temp = tempfile::Builder::new().prefix(INCOMPLETE_PREFIX).tempdir_in(&parent);
        let temp = temp.map_err(WasmError::io("create a directory in", &parent))?;
        let package = temp.path().join("package");
        match self.parts.module {
            None => fetch(&package)?,
            Some(module) => {
                let written =
                    private_dir(&package).and_then(|()| fs::write(package.join(&self.spec.module), module.content()?));
                written.map_err(WasmError::io("write", &package))?;
            }
        }
        progress.note(&format!("unpacking {}", self.spec.name));
        let folder = temp.path().join("runtime");
        self.lay_out_package(&package, &folder)?;
        remove_dir(&target)?;
        fs::rename(&folder, &target).map_err(WasmError::io("install", &target))?;
        Ok(())
    }

    /// Arranges an unpacked package as guests and later preparations need it.
    fn lay_out_package(&self, package: &Path, folder: &Path) -> Result<(), WasmError> {
        let lib = folder.join("lib");
        private_dir(&lib).map_err(WasmError::io("create", &lib))?;
        rename(&package.join(&self.spec.module), &folder.join(MODULE_FILE))?;
        let mut sealed = vec![MODULE_FILE.to_owned()];
        if let Some((member, name)) = &self.spec.library {
            let library = lib.join(name);
            rename(&package.join(member), &library)?;
            for (index, archive) in self.spec.data.iter().enumerate() {
                extract_nested_zip(&library, &archive.member, &folder.join(data_dir(index)))?;
            }
            sealed.push(format!("lib/{name}"));
        }
        rename(package, &folder.join("package"))?;
        let root = folder.join("root");
        for place in ROOT_MOUNT_POINTS {
            let place = root.join(place);
            private_dir(&place).map_err(WasmError::io("create", &place))?;
        }
        let mut manifest = Manifest::default();
        for sealed in sealed {
            let path = folder.join(&sealed);
            make_private(&path).map_err(WasmError::io("protect", &path))?;
            manifest.seals.insert(sealed.clone(), Seal::compute(&folder.join(&sealed))?);
        }
        manifest.write(folder)
    }

    /// Compiles the code and makes the images of `runtime.toml` and the user's own.
    pub(crate) fn prepare(&self, progress: &dyn Progress) -> Result<(), WasmError> {
        let target = self.prepared_dir();
        let parent = self.dirs.cache.join("prepared");
        private_dir(&parent).map_err(WasmError::io("create", &parent))?;
        remove_incomplete_dirs(&parent);
        let temp = tempfile::Builder::new().prefix(INCOMPLETE_PREFIX).tempdir_in(&parent);
        let temp = temp.map_err(WasmError::io("create a directory in", &parent))?;
        let dir = temp.path();
        let module = self.runtime_dir().join(MODULE_FILE);
        let wasm = fs::read(&module).map_err(WasmError::io("read", &module))?;
        let wasm = self.apply_patches(&module, wasm)?;
        progress.note(&format!("compiling {}", self.spec.name));
        let mut manifest = Manifest::default();
        match self.spec.component {
            Some(_) => self.compile_component(dir, &module, &wasm, &mut manifest)?,
            None => self.make_images(dir, &module, wasm, &mut manifest, progress)?,
        }
        manifest.write(dir)?;
        remove_dir(&target)?;
        // Renaming the directory changes the identity of no file, so the seals stay valid.
        fs::rename(temp.keep(), &target).map_err(WasmError::io("install", &target))?;
        for kept in [&target, &self.runtime_dir()] {
            remove_other_versions(kept, &format!("{}-", self.spec.name));
        }
        Ok(())
    }

    /// Applies the patches that `runtime.toml` names. The installed module stays as fetched.
    fn apply_patches(&self, module: &Path, mut wasm: Vec<u8>) -> Result<Vec<u8>, WasmError> {
        for name in &self.spec.patches {
            let patch_error =
                |reason: String| WasmError::Patch { patch: name.clone(), path: module.to_owned(), reason };
            let text = self.patch_text(name).ok_or_else(|| patch_error("unknown patch".into()))?;
            let patch = Patch::parse(text).map_err(patch_error)?;
            wasm = apply(&patch, &wasm).map_err(|error| patch_error(error.to_string()))?;
        }
        Ok(wasm)
    }

    fn compile_component(&self, dir: &Path, at: &Path, wasm: &[u8], manifest: &mut Manifest) -> Result<(), WasmError> {
        write_sealed(dir, CODE_FILE, &ComponentCode::compile(&self.engine, at, wasm)?, manifest)
    }

    fn make_images(
        &self,
        dir: &Path,
        module: &Path,
        wasm: Vec<u8>,
        manifest: &mut Manifest,
        progress: &dyn Progress,
    ) -> Result<(), WasmError> {
        let parts = split(module, &wasm)?;
        self.compile_code(dir, module, &parts.code, &wasm, manifest)?;
        drop(wasm);
        write_sealed(dir, INITIAL_IMAGE_FILE, &parts.memory, manifest)?;
        drop(parts);
        let mut codes = BTreeMap::new();
        for code in self.spec.codes() {
            codes.insert(code, self.load_code_from(dir, manifest, code)?);
        }
        let builder = ImageBuilder { store: self, initial: &dir.join(INITIAL_IMAGE_FILE) };
        for recipe in &self.spec.image {
            progress.note(&format!("starting {} for the image {}", self.spec.name, recipe.name));
            let code = (recipe.code.as_deref(), &codes[&recipe.code.as_deref()]);
            let name = image_file(&recipe.name);
            let made = builder.build_image(code, &self.spec.imports_of(&recipe.name), &dir.join(&name))?;
            manifest.seals.insert(name.clone(), Seal::compute(&dir.join(name))?);
            manifest.facts = made.interpreter;
            manifest.images.insert(recipe.name.clone(), made.facts);
        }
        for (name, imports) in self.user_recipes()? {
            progress.note(&format!("starting {} for the image {name}", self.spec.name));
            let file = image_file(&name);
            // A module that is missing in this version must not prevent the other images.
            let made = match builder.build_with_least_code(&codes, &imports, &dir.join(&file)) {
                Ok(made) => made,
                Err(error) => {
                    progress.note(&format!("the image {name} is left out: {error}"));
                    continue;
                }
            };
            manifest.seals.insert(file.clone(), Seal::compute(&dir.join(file))?);
            manifest.images.insert(name, made.facts);
        }
        Ok(())
    }

    /// Compiles the code: one module, or a primary module for each image and a secondary module for each later part.
    /// `named` is the module with its names.
    fn compile_code(
        &self,
        dir: &Path,
        module: &Path,
        code: &[u8],
        named: &[u8],
        manifest: &mut Manifest,
    ) -> Result<(), WasmError> {
        let mut compile =
            |name: String, code: &[u8]| write_sealed(dir, &name, &CodeImage::compile(&self.engine, code)?, manifest);
        let Some(split) = &self.spec.split else { return compile(code_file(None), code) };
        let refused = |reason: String| WasmError::Module { path: module.to_owned(), reason };
        let plan = Plan::new(code, named, split).map_err(refused)?;
        let mut first = split.parts.len();
        for last in self.spec.codes() {
            let position = last.and_then(|last| split.position(last));
            let position = position.ok_or_else(|| refused("an image has no code".to_owned()))?;
            compile(code_file(last), &plan.primary(position).map_err(refused)?)?;
            first = first.min(position + 1);
        }
        for (index, part) in split.parts.iter().enumerate().skip(first) {
            compile(part_file(&part.name), &plan.secondary(index).map_err(refused)?)?;
        }
        Ok(())
    }

    /// Adds an image to a prepared runtime.
    pub(crate) fn add_image(&self, name: &str, imports: &[String]) -> Result<ImageFacts, WasmError> {
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        self.invalidate();
        let dir = self.prepared_dir();
        let mut manifest =
            Manifest::read(&dir)?.ok_or_else(|| WasmError::damaged(&dir, "the runtime is not prepared"))?;
        let mut codes = BTreeMap::new();
        for code in self.spec.codes() {
            codes.insert(code, self.load_code_from(&dir, &mut manifest, code)?);
        }
        drop(manifest.open(&dir, INITIAL_IMAGE_FILE)?);
        let file = image_file(name);
        let temp = tempfile::Builder::new().prefix(INCOMPLETE_PREFIX).tempdir_in(&dir);
        let temp = temp.map_err(WasmError::io("create a directory in", &dir))?;
        let builder = ImageBuilder { store: self, initial: &dir.join(INITIAL_IMAGE_FILE) };
        let made = builder.build_with_least_code(&codes, imports, &temp.path().join(&file))?;
        rename(&temp.path().join(&file), &dir.join(&file))?;
        manifest.seals.insert(file.clone(), Seal::compute(&dir.join(&file))?);
        manifest.images.insert(name.to_owned(), made.facts.clone());
        manifest.write(&dir)?;
        self.store_recipe(name, Some(imports))?;
        Ok(made.facts)
    }
}

/// The empty directories below a guest's root for mounts and for virtual devices.
pub(crate) const ROOT_MOUNT_POINTS: [&str; 5] = ["work", "tmp", "run/codebox", "usr/local/lib", "dev"];

/// Writes an artefact and adds its seal to the manifest.
fn write_sealed(dir: &Path, name: &str, bytes: &[u8], manifest: &mut Manifest) -> Result<(), WasmError> {
    let path = dir.join(name);
    write_atomic(&path, bytes)?;
    manifest.seals.insert(name.to_owned(), Seal::compute(&path)?);
    Ok(())
}

/// Prefix of the names of incomplete directories.
const INCOMPLETE_PREFIX: &str = ".new-";

/// Removes incomplete directories of killed processes. The lock shows that no other process is working on them.
fn remove_incomplete_dirs(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(INCOMPLETE_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Number of directories of other versions to keep: two versions of codebox may share a home.
const OTHER_VERSIONS_KEPT: usize = 1;

/// Removes the directories of other versions of codebox in the same parent directory, except for the latest one.
///
/// A guest that still runs from a removed directory keeps its open files. A guest that starts later makes the directory
/// again.
fn remove_other_versions(current: &Path, prefix: &str) {
    let Some(entries) = current.parent().and_then(|parent| fs::read_dir(parent).ok()) else { return };
    let mut others: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != current && entry.file_name().to_string_lossy().starts_with(prefix))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    others.sort();
    let kept = others.len().saturating_sub(OTHER_VERSIONS_KEPT);
    for (_, path) in &others[..kept] {
        // If the removal fails now, the next version tries it again.
        let _ = fs::remove_dir_all(path);
    }
}

fn remove_dir(path: &Path) -> Result<(), WasmError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(WasmError::io("remove", path)(e)),
        _ => Ok(()),
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), WasmError> {
    fs::rename(from, to).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => WasmError::damaged(from, "not found in the package"),
        _ => WasmError::Io { doing: "move", path: from.to_owned(), source },
    })
}

/// Unpacks a zip that is a member of another zip.
fn extract_nested_zip(outer: &Path, member: &str, into: &Path) -> Result<(), WasmError> {
    let broken = |e: zip::result::ZipError| WasmError::damaged(outer, format!("{member}: {e}"));
    let file = File::open(outer).map_err(WasmError::io("open", outer))?;
    let mut archive = zip::ZipArchive::new(file).map_err(broken)?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut archive.by_name(member).map_err(broken)?, &mut bytes)
        .map_err(WasmError::io("read", outer))?;
    let mut inner = zip::ZipArchive::new(io::Cursor::new(bytes)).map_err(broken)?;
    inner.extract(into).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_latest_other_version() {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = |name: &str| parent.path().join(name);
        for (age, name) in
            ["python-1-a", "python-1-b", "python-1-c", "python-2-d", "pythonic", "lua-1"].iter().enumerate()
        {
            fs::create_dir(dir(name)).expect("the directory is created");
            let at = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64 * 60);
            File::open(dir(name)).and_then(|dir| dir.set_modified(at)).expect("its time can be set");
        }
        remove_other_versions(&dir("python-1-a"), "python-");
        let mut left: Vec<_> =
            fs::read_dir(parent.path()).expect("a directory").flatten().map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["lua-1", "python-1-a", "python-2-d", "pythonic"]);
    }
}

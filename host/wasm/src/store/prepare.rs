//! Prepares an installed runtime: compiles its code and makes its images, each when it is first needed.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use codebox_core::{Preparation, Progress};
use codebox_files::private_dir;

use crate::code::{CodeImage, Patch, Plan, SplitSpec, apply, split};
use crate::component::ComponentCode;
use crate::error::WasmError;
use crate::image::{BuiltImage, ImageBuilder, ImageFacts};
use crate::store::estimate::Estimate;
use crate::store::install::{
    INCOMPLETE_PREFIX, make_root, remove_dir, remove_incomplete, remove_other_versions, rename,
};
use crate::store::lock::StoreLock;
use crate::store::manifest::{
    CODE_FILE, INITIAL_IMAGE_FILE, MODULE_FILE, Manifest, code_file, image_file, later_parts, part_file,
};
use crate::store::seal::{Durability, Seal, check_private_dir, write_atomic};
use crate::store::{ImageRecipe, Store};

impl Store {
    /// Makes those of the required contents that do not exist.
    ///
    /// The manifest is written after every file, so that a later call continues after an interruption. No thread of this work
    /// is left when the call returns. The caller holds the store's lock.
    pub(super) fn prepare(&self, required: Preparation<'_>, progress: &dyn Progress) -> Result<(), WasmError> {
        let dir = self.prepared_dir();
        let parent = self.dirs.cache.join("prepared");
        private_dir(&parent).map_err(WasmError::io("create", &parent))?;
        remove_incomplete(&parent);
        if check_private_dir(&dir).is_err() {
            // Other users may have changed its files.
            remove_dir(&dir)?;
        }
        private_dir(&dir).map_err(WasmError::io("create", &dir))?;
        remove_incomplete(&dir);
        // A file that is not listed, or differs from its seal, is made again and replaced.
        let stored = Manifest::read(&dir).ok().flatten().unwrap_or_default();
        let kept = stored.clone().with_valid_entries(&dir);
        let kept = match self.installed() {
            Some(installed) => {
                make_root(&self.root_dir())?;
                installed.adopt(kept, &stored)?
            }
            None => kept,
        };
        if kept != stored {
            kept.write(&dir)?;
        }
        if let (Some(_), Preparation::Image(_)) = (self.installed(), required)
            && self.is_prepared(&kept, required)
        {
            self.cache_manifest(Some(kept));
            remove_other_versions(&dir, &format!("{}-", self.spec.name));
            return Ok(());
        }
        let store = self.with_own_engine()?;
        let mut preparer = Preparer::new(&store, progress, dir.clone(), kept);
        let prepared = preparer.prepare(required);
        if prepared.is_err() && preparer.manifest.images.is_empty() {
            // Without an image the directory is of no use, and the disk may be full.
            let _ = remove_dir(&dir);
        }
        // Other threads may have read the manifest in the meantime.
        self.cache_manifest(prepared.is_ok().then_some(preparer.manifest));
        prepared?;
        for kept in [&dir, &self.own_runtime_dir()] {
            remove_other_versions(kept, &format!("{}-", self.spec.name));
        }
        Ok(())
    }

    /// Adds an image of the user's own to a runtime that is completely prepared.
    pub(super) fn add_image(&self, name: &str, imports: &[String]) -> Result<ImageFacts, WasmError> {
        let _lock = StoreLock::acquire(&self.dirs.data, || ())?;
        let dir = self.prepared_dir();
        let manifest = Manifest::read(&dir)?.ok_or_else(|| WasmError::damaged(&dir, "the runtime is not prepared"))?;
        let store = self.with_own_engine()?;
        let mut preparer = Preparer::new(&store, &codebox_core::Silent, dir, manifest);
        let made = preparer.make_user_image(name, imports)?;
        self.cache_manifest(Some(preparer.manifest));
        self.store_recipe(name, Some(imports))?;
        Ok(made.facts)
    }

    /// Returns the installed module with the patches that `runtime.toml` names. The file stays as fetched.
    fn patched_module(&self) -> Result<(PathBuf, Vec<u8>), WasmError> {
        let path = self.runtime_dir().join(MODULE_FILE);
        let mut wasm = fs::read(&path).map_err(WasmError::io("read", &path))?;
        for name in &self.spec.patches {
            let patch_error = |reason: String| WasmError::Patch { patch: name.clone(), path: path.clone(), reason };
            let text = self.patch_text(name).ok_or_else(|| patch_error("unknown patch".into()))?;
            let patch = Patch::parse(text).map_err(patch_error)?;
            wasm = apply(&patch, &wasm).map_err(|error| patch_error(error.to_string()))?;
        }
        Ok((path, wasm))
    }
}

/// A preparation in progress.
pub(super) struct Preparer<'s> {
    store: &'s Store,
    progress: &'s dyn Progress,
    /// The directory of the prepared contents.
    dir: PathBuf,
    manifest: Manifest,
    /// The module, once a step needs it.
    source: Option<Rc<Source>>,
}

/// An installed module.
struct Source {
    path: PathBuf,
    /// The module with its names and its data.
    named: Vec<u8>,
    /// The module without data.
    code: Vec<u8>,
}

/// The modules of a source.
struct Encoder<'s> {
    source: &'s Source,
    /// The parts, if the code is split.
    plan: Option<Plan<'s>>,
}

impl<'s> Encoder<'s> {
    fn new(source: &'s Source, split: Option<&'s SplitSpec>) -> Result<Self, WasmError> {
        let plan = split.map(|split| Plan::new(&source.code, &source.named, split)).transpose();
        Ok(Self { source, plan: plan.map_err(|reason| source.refused(reason))? })
    }

    fn encode(&self, module: CodeModule) -> Result<Cow<'s, [u8]>, WasmError> {
        let Self { source, plan } = self;
        let encoded = match (module, plan) {
            (CodeModule::Primary(last), Some(plan)) => plan.primary(last).map(Cow::Owned),
            (CodeModule::Secondary(index), Some(plan)) => plan.secondary(index).map(Cow::Owned),
            (CodeModule::Whole, _) | (_, None) => Ok(Cow::Borrowed(&source.code[..])),
        };
        encoded.map_err(|reason| source.refused(reason))
    }
}

impl Source {
    fn refused(&self, reason: String) -> WasmError {
        WasmError::Module { path: self.path.clone(), reason }
    }
}

/// A module that is compiled.
#[derive(Debug, Clone, Copy)]
enum CodeModule {
    /// The module of code that has no parts.
    Whole,
    /// The primary module up to the part at a position.
    Primary(usize),
    /// The secondary module of the part at a position.
    Secondary(usize),
}

impl<'s> Preparer<'s> {
    pub(super) fn new(store: &'s Store, progress: &'s dyn Progress, dir: PathBuf, manifest: Manifest) -> Self {
        Self { store, progress, dir, manifest, source: None }
    }

    fn prepare(&mut self, required: Preparation<'_>) -> Result<(), WasmError> {
        if self.store.spec.component.is_some() {
            return self.compile_component();
        }
        let recipes = &self.store.spec.image;
        let name = match required {
            Preparation::Image(name) => Some(name),
            Preparation::Complete => None,
        };
        if let Some(recipe) = recipes.iter().find(|recipe| Some(recipe.name.as_str()) == name) {
            self.compile(&self.primaries([recipe]))?;
            return self.make_recipe(recipe);
        }
        self.compile(&self.modules())?;
        recipes.iter().try_for_each(|recipe| self.make_recipe(recipe))?;
        let own = self.store.user_recipes()?;
        for (image, imports) in own.iter().filter(|(image, _)| name.is_none_or(|name| name == *image)) {
            if self.manifest.images.contains_key(image) {
                continue;
            }
            self.progress.note(&format!("starting {} for the image {image}", self.store.spec.name));
            match self.make_user_image(image, imports) {
                Err(error) if name.is_none() => {
                    // A module that is missing in this version must not prevent the other images.
                    self.progress.note(&format!("the image {image} is left out: {error}"));
                }
                made => drop(made?),
            }
        }
        Ok(())
    }

    /// Compiles all code and returns the manifest with it.
    pub(super) fn compile_all(mut self) -> Result<Manifest, WasmError> {
        self.compile(&self.modules())?;
        Ok(self.manifest)
    }

    /// Returns all modules of the code.
    fn modules(&self) -> Vec<CodeModule> {
        self.primaries(&self.store.spec.image).into_iter().chain(self.secondaries()).collect()
    }

    fn is_made(&self, file: &str) -> bool {
        self.manifest.seals.contains_key(file)
    }

    /// Writes an artefact, seals it and records it.
    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), WasmError> {
        write_atomic(&self.dir.join(name), bytes, Durability::Durable)?;
        self.record(name)
    }

    fn record(&mut self, name: &str) -> Result<(), WasmError> {
        self.manifest.seals.insert(name.to_owned(), Seal::compute(&self.dir.join(name))?);
        self.manifest.write(&self.dir)
    }

    fn compile_component(&mut self) -> Result<(), WasmError> {
        if self.is_made(CODE_FILE) {
            return Ok(());
        }
        self.progress.note(&format!("compiling {}", self.store.spec.name));
        let (path, wasm) = self.store.patched_module()?;
        self.write(CODE_FILE, &ComponentCode::compile(&self.store.engine, &path, &wasm)?)
    }

    /// Returns the module, and writes its memory.
    fn source(&mut self) -> Result<Rc<Source>, WasmError> {
        if let Some(source) = &self.source {
            return Ok(Rc::clone(source));
        }
        let (path, named) = self.store.patched_module()?;
        let split = split(&path, &named)?;
        if !self.is_made(INITIAL_IMAGE_FILE) {
            self.write(INITIAL_IMAGE_FILE, &split.memory)?;
        }
        let source = Rc::new(Source { path, named, code: split.code });
        self.source = Some(Rc::clone(&source));
        Ok(source)
    }

    /// Returns the primary modules of images.
    fn primaries<'r>(&self, recipes: impl IntoIterator<Item = &'r ImageRecipe>) -> Vec<CodeModule> {
        let split = self.store.spec.split.as_ref();
        let position = |recipe: &ImageRecipe| split?.position(recipe.code.as_deref()?);
        recipes.into_iter().map(|recipe| position(recipe).map_or(CodeModule::Whole, CodeModule::Primary)).collect()
    }

    /// Returns the secondary modules of the parts that at least one image does not start with.
    fn secondaries(&self) -> Vec<CodeModule> {
        let Some(split) = &self.store.spec.split else { return Vec::new() };
        let first = self.store.spec.codes().first().copied().flatten();
        later_parts(split, first).map(CodeModule::Secondary).collect()
    }

    fn file_of(&self, module: CodeModule) -> String {
        let part = |index: usize| self.store.spec.split.as_ref().map(|split| split.parts[index].name.as_str());
        match module {
            CodeModule::Whole => code_file(None),
            CodeModule::Primary(last) => code_file(part(last)),
            CodeModule::Secondary(index) => part_file(part(index).unwrap_or_default()),
        }
    }

    /// Returns those of some modules that are not compiled yet, and the names of their files.
    fn missing(&self, modules: &[CodeModule]) -> Vec<(CodeModule, String)> {
        let mut missing: Vec<(CodeModule, String)> = Vec::new();
        for module in modules {
            let file = self.file_of(*module);
            if !self.is_made(&file) && missing.iter().all(|(_, other)| *other != file) {
                missing.push((*module, file));
            }
        }
        missing
    }

    /// Compiles modules of the code that are not compiled yet.
    fn compile(&mut self, modules: &[CodeModule]) -> Result<(), WasmError> {
        let missing = self.missing(modules);
        if missing.is_empty() && self.is_made(INITIAL_IMAGE_FILE) {
            return Ok(());
        }
        let source = self.source()?;
        let encoder = Encoder::new(&source, self.store.spec.split.as_ref())?;
        let missing: Vec<(Cow<'_, [u8]>, String)> = missing
            .into_iter()
            .map(|(module, file)| Ok((encoder.encode(module)?, file)))
            .collect::<Result<_, WasmError>>()?;
        let count = missing.len();
        let mut estimate = Estimate::new(missing.iter().map(|(encoded, _)| encoded.len()).sum());
        for (number, (encoded, file)) in (1..).zip(missing) {
            let (name, left) = (&self.store.spec.name, estimate.words());
            self.progress.note(&match count {
                1 => format!("compiling {name}, {left}"),
                _ => format!("compiling {name}, part {number} of {count}, {left}"),
            });
            let started = Instant::now();
            self.write(&file, &CodeImage::compile(&self.store.engine, &encoded)?)?;
            estimate.compiled(encoded.len(), started.elapsed());
        }
        Ok(())
    }

    /// Returns true if a module of the code is not compiled yet.
    pub(super) fn has_missing_code(&self) -> bool {
        self.store.spec.component.is_none() && !self.missing(&self.modules()).is_empty()
    }

    /// Compiles the first module that is missing, and returns the name of its file and the content. Writes nothing.
    pub(super) fn compile_missing(&mut self) -> Result<Option<(String, Vec<u8>)>, WasmError> {
        let Some((module, file)) = self.missing(&self.modules()).into_iter().next() else { return Ok(None) };
        let source = self.source()?;
        let encoder = Encoder::new(&source, self.store.spec.split.as_ref())?;
        Ok(Some((file, CodeImage::compile(&self.store.engine, &encoder.encode(module)?)?)))
    }

    /// Adds compiled code to the manifest on the disk, unless another process has added it. The caller holds the store's lock.
    pub(super) fn add_code(&mut self, manifest: Manifest, file: &str, bytes: &[u8]) -> Result<(), WasmError> {
        self.manifest = manifest;
        if self.is_made(file) { Ok(()) } else { self.write(file, bytes) }
    }

    fn make_recipe(&mut self, recipe: &ImageRecipe) -> Result<(), WasmError> {
        if self.manifest.images.contains_key(&recipe.name) {
            return Ok(());
        }
        let store = self.store;
        self.progress.note(&format!("starting {} for the image {}", store.spec.name, recipe.name));
        let last = recipe.code.as_deref();
        let code = store.load_code_from(&self.dir, &self.manifest, last)?;
        let imports = store.spec.imports_of(&recipe.name);
        self.make_image(&recipe.name, |builder, file| builder.build_image((last, &code), &imports, None, file))?;
        Ok(())
    }

    /// Makes an image of the user's own. All code has to be compiled.
    fn make_user_image(&mut self, name: &str, imports: &[String]) -> Result<BuiltImage, WasmError> {
        let codes = self.codes()?;
        self.make_image(name, |builder, file| builder.build_with_least_code(&codes, imports, None, file))
    }

    /// Returns the code of all images with the name of its last part, the smallest first.
    fn codes(&self) -> Result<Vec<(Option<&'s str>, CodeImage)>, WasmError> {
        let store = self.store;
        let load = |last| Ok((last, store.load_code_from(&self.dir, &self.manifest, last)?));
        store.spec.codes().into_iter().map(load).collect()
    }

    /// Makes an image and records it.
    fn make_image(
        &mut self,
        name: &str,
        make: impl FnOnce(&ImageBuilder<'_>, &Path) -> Result<BuiltImage, WasmError>,
    ) -> Result<BuiltImage, WasmError> {
        drop(self.manifest.open(&self.dir, INITIAL_IMAGE_FILE)?);
        let initial = self.manifest.path(&self.dir, INITIAL_IMAGE_FILE);
        let temp = tempfile::Builder::new().prefix(INCOMPLETE_PREFIX).tempdir_in(&self.dir);
        let temp = temp.map_err(WasmError::io("create a directory in", &self.dir))?;
        let file = image_file(name);
        let incomplete = temp.path().join(&file);
        let made = make(&ImageBuilder { store: self.store, initial: &initial }, &incomplete)?;
        rename(&incomplete, &self.dir.join(&file))?;
        if !made.interpreter.is_null() {
            self.manifest.facts = made.interpreter.clone();
        }
        self.add_image(name, made.facts.clone())?;
        Ok(made)
    }

    /// Records an image whose file is in its place.
    pub(super) fn add_image(&mut self, name: &str, facts: ImageFacts) -> Result<(), WasmError> {
        self.manifest.images.insert(name.to_owned(), facts);
        self.record(&image_file(name))
    }

    pub(super) fn into_manifest(self) -> Manifest {
        self.manifest
    }
}

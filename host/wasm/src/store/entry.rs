//! The artefact store: its directories and state.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use codebox_core::{Access, GuestPath, INITIAL_IMAGE, Preparation};
use codebox_files::{EmbeddedFile, private_dir};

use crate::code::{CodeFile, CodeImage, PATCHER_VERSION, SplitSpec};
use crate::component::ComponentCode;
use crate::engine::Engine;
use crate::error::WasmError;
use crate::image::{ImageFacts, MemoryImage};
use crate::mounts::Mount;
use crate::store::RuntimeSpec;
use crate::store::installation::{Installation, InstalledDirs};
use crate::store::kept::CodeFiles;
use crate::store::lock::StoreLock;
use crate::store::manifest::{
    CODE_FILE, INITIAL_IMAGE_FILE, MANIFEST_FILE, Manifest, code_file, image_file, later_parts, part_file,
};
use crate::store::seal::{Seal, sha256_of};

/// The directories of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreDirs {
    /// Installed runtimes, which had to be fetched.
    pub data: PathBuf,
    /// Compiled code and images, which can be made again.
    pub cache: PathBuf,
    /// Runtimes that were installed with the program.
    pub installation: Option<Installation>,
}

/// The state of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeState {
    /// Installed, with the required code and images for this engine.
    Ready,
    /// Installed, but the required code and images have to be made for this version of codebox or this processor.
    Unprepared,
    /// Not installed.
    Missing,
    /// Installed, but damaged for this reason.
    Damaged(String),
}

/// The parts of a runtime that are built into codebox.
#[derive(Debug, Clone, Copy, Default)]
pub struct RuntimeParts {
    /// The texts of a prelude that the host loads, in order. The first text loads the others. Empty for a module that
    /// contains its prelude.
    pub prelude: &'static [(&'static str, &'static str)],
    /// The patches that `runtime.toml` may name, with their descriptions.
    pub patches: &'static [(&'static str, &'static str)],
    /// A digest of the prelude and the patches, which differs if any of their texts does.
    pub digest: &'static str,
    /// The module itself, if it is not fetched.
    pub module: Option<EmbeddedFile<'static>>,
}

/// The artefacts of one runtime.
#[derive(Clone)]
pub struct Store {
    pub(crate) engine: Engine,
    pub(crate) dirs: StoreDirs,
    pub(crate) spec: Arc<RuntimeSpec>,
    /// The parts of the runtime that are built into codebox.
    pub(crate) parts: RuntimeParts,
    /// The manifest of the prepared artefacts, once they are found complete. A process checks them once.
    ready: Arc<Mutex<Option<Manifest>>>,
    /// The directory of code and images, once its name is computed.
    prepared_dir: Arc<OnceLock<PathBuf>>,
    /// The directories of this runtime in the installation, once they are looked up.
    installed: Arc<OnceLock<Option<InstalledDirs>>>,
}

/// File of a runtime that the user has installed, and that takes precedence over that of the installation.
pub(super) const CHOSEN_FILE: &str = "chosen";

/// Guest directory of the language's library.
const LIBRARY_DIR: &str = "/usr/local/lib";

/// Returns the directory name of a data archive's contents.
pub(crate) fn data_dir(index: usize) -> String {
    format!("data-{index}")
}

impl Store {
    /// Creates a store of one runtime below these directories, without accessing them.
    pub fn new(engine: Engine, dirs: StoreDirs, spec: RuntimeSpec, parts: RuntimeParts) -> Self {
        Self {
            engine,
            dirs,
            spec: Arc::new(spec),
            parts,
            ready: Arc::default(),
            prepared_dir: Arc::default(),
            installed: Arc::default(),
        }
    }

    /// Returns this store with an engine of its own, whose threads end with it.
    pub(super) fn with_own_engine(&self) -> Result<Self, WasmError> {
        Ok(self.with_engine(Engine::new()?))
    }

    /// Returns this store with another engine.
    pub(super) fn with_engine(&self, engine: Engine) -> Self {
        Self { engine, ..self.clone() }
    }

    /// Returns the runtime of this store.
    pub fn spec(&self) -> &RuntimeSpec {
        &self.spec
    }

    /// Returns the directory where the runtime is, or will be, installed.
    pub fn runtime_dir(&self) -> PathBuf {
        self.installed().map_or_else(|| self.own_runtime_dir(), |installed| installed.runtime.clone())
    }

    /// Returns the directory of a runtime that is not part of the installation.
    pub(super) fn own_runtime_dir(&self) -> PathBuf {
        self.dirs.data.join("runtimes").join(self.spec.folder())
    }

    /// Returns the directories of this runtime in the installation. `None` if the installation has none for this processor, or
    /// if the user has installed the runtime.
    pub(super) fn installed(&self) -> Option<&InstalledDirs> {
        let find = || {
            let installation = self.dirs.installation.as_ref()?;
            let is_chosen = self.own_runtime_dir().join(CHOSEN_FILE).exists();
            (!is_chosen).then(|| installation.find(self))?
        };
        self.installed.get_or_init(find).as_ref()
    }

    /// Returns true if there are files of this runtime, and all of them are part of the installation.
    pub fn is_installed_only(&self) -> bool {
        self.installed().is_some() && !self.own_runtime_dir().exists()
    }

    /// Returns the directory of the runtime's code and images for this engine.
    pub fn prepared_dir(&self) -> PathBuf {
        let name = || {
            let key = self.engine.compatibility_key();
            self.dirs.cache.join("prepared").join(format!("{}-{key}-{}", self.spec.folder(), self.inputs_digest()))
        };
        self.prepared_dir.get_or_init(name).clone()
    }

    /// Returns the host directory of the guests' library.
    pub fn library_dir(&self) -> PathBuf {
        self.runtime_dir().join("lib")
    }

    /// Returns the read-only directory that guests see as `/`. An installation has none, because many kinds of packages cannot
    /// contain its empty directories.
    pub(crate) fn root_dir(&self) -> PathBuf {
        if self.installed().is_some() { self.prepared_dir().join("root") } else { self.runtime_dir().join("root") }
    }

    /// Returns the mounts of every guest of this runtime: its library and the data archives.
    pub(crate) fn library_mounts(&self) -> Result<Vec<Mount>, WasmError> {
        let guest_path =
            |guest: &str| GuestPath::new(guest).map_err(|e| WasmError::Prelude(format!("runtime.toml: {guest}: {e}")));
        if self.spec.library.is_none() {
            return Ok(Vec::new());
        }
        let library = Mount { guest: guest_path(LIBRARY_DIR)?, host: self.library_dir(), access: Access::ReadOnly };
        let data = self.spec.data.iter().enumerate().map(|(index, archive)| {
            let host = self.runtime_dir().join(data_dir(index));
            Ok(Mount { guest: guest_path(&archive.guest)?, host, access: Access::ReadOnly })
        });
        std::iter::once(Ok(library)).chain(data).collect()
    }

    /// Returns the first text of the prelude and its modules, if the host loads a prelude.
    pub(crate) fn prelude_parts(&self) -> Option<(&'static str, &'static [(&'static str, &'static str)])> {
        self.parts.prelude.split_first().map(|(boot, modules)| (boot.1, modules))
    }

    /// Returns the paths of the lists of installed and prepared files, including those that do not exist yet.
    pub fn manifests(&self) -> impl Iterator<Item = PathBuf> {
        let installed = self.installed().map(|installed| installed.runtime.clone());
        let dirs = [self.own_runtime_dir(), self.prepared_dir()].into_iter().chain(installed);
        dirs.map(|dir| dir.join(MANIFEST_FILE))
    }

    /// Returns the directories with the files of this runtime, including those that do not exist yet.
    pub fn dirs(&self) -> impl Iterator<Item = PathBuf> {
        let installed = self.installed().into_iter().flat_map(|installed| [&installed.images, &installed.code]);
        [self.runtime_dir(), self.prepared_dir()].into_iter().chain(installed.cloned())
    }

    /// Returns the directories that a running guest of this runtime reads.
    pub fn guest_dirs(&self) -> Vec<PathBuf> {
        vec![self.runtime_dir(), self.root_dir()]
    }

    /// Returns the description of a patch that `runtime.toml` names.
    pub(crate) fn patch_text(&self, name: &str) -> Option<&'static str> {
        self.parts.patches.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// Returns the digest of the prelude, the patches, the parts of the code and the recipes. A change of any of them
    /// requires new code and images.
    pub(super) fn inputs_digest(&self) -> String {
        let inputs = (
            self.parts.digest,
            PATCHER_VERSION,
            &self.spec.patches,
            &self.spec.image,
            &self.spec.split,
            &self.spec.sample,
        );
        let mut digest = sha256_of(&serde_json::to_vec(&inputs).unwrap_or_default());
        digest.truncate(16);
        digest
    }

    /// Returns the name of the runtime with the digest of all that its guests are made of: a saved state fits no other runtime.
    pub(crate) fn identity(&self) -> String {
        format!("{}-{}", self.spec.folder(), self.inputs_digest())
    }

    /// Returns the language version that the interpreter reported when it was prepared.
    pub fn interpreter_version(&self) -> Option<String> {
        let prepared = self.prepared().ok()?;
        let manifest = prepared.or_else(|| Manifest::read_installed(&self.installed()?.images).ok())?;
        Some(manifest.facts.get("version")?.as_str()?.to_owned())
    }

    /// Returns the manifest of the prepared artefacts, from memory if this process has checked them before.
    pub(crate) fn prepared(&self) -> Result<Option<Manifest>, WasmError> {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match ready {
            Some(manifest) => Ok(Some(manifest)),
            None => Manifest::read(&self.prepared_dir()),
        }
    }

    /// Returns a value from the manifest in memory; `None` if this process has not checked it.
    pub(super) fn of_known<T>(&self, value: impl FnOnce(&Manifest) -> T) -> Option<T> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(value)
    }

    /// Discards the manifest in memory, because the artefacts are about to change or have to be checked again.
    pub fn invalidate(&self) {
        self.cache_manifest(None);
    }

    pub(super) fn cache_manifest(&self, manifest: Option<Manifest>) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) = manifest;
    }

    /// Returns the state of the runtime's required contents, by the seals of all its artefacts. Once they are ready, later
    /// calls check nothing.
    pub fn state(&self, required: Preparation<'_>) -> RuntimeState {
        let has_required = |manifest: &Manifest| self.is_prepared(manifest, required);
        if self.of_known(has_required) == Some(true) {
            return RuntimeState::Ready;
        }
        // The manifest of prepared files includes the files of an installation.
        if self.installed().is_none() {
            let mut own = match Manifest::read(&self.own_runtime_dir()) {
                Ok(Some(own)) => own,
                Ok(None) => return RuntimeState::Missing,
                Err(e) => return RuntimeState::Damaged(e.to_string()),
            };
            match own.check(&self.own_runtime_dir()) {
                Ok(is_renewed) => self.store_renewed(&self.own_runtime_dir(), &own, is_renewed),
                Err(e) => return RuntimeState::Damaged(e.to_string()),
            }
        }
        let dir = self.prepared_dir();
        // Damaged contents are made again.
        let Ok(Some(mut prepared)) = Manifest::read(&dir) else { return RuntimeState::Unprepared };
        let Ok(is_renewed) = prepared.check(&dir) else { return RuntimeState::Unprepared };
        self.store_renewed(&dir, &prepared, is_renewed);
        if !has_required(&prepared) || !self.is_adopted(&prepared) {
            return RuntimeState::Unprepared;
        }
        self.cache_manifest(Some(prepared));
        RuntimeState::Ready
    }

    /// Returns true if a manifest lists the files of the present installation, and the directories that an installation lacks exist;
    /// true without an installation.
    fn is_adopted(&self, manifest: &Manifest) -> bool {
        self.installed()
            .is_none_or(|installed| manifest.installed.as_ref() == Some(&installed.runtime) && self.root_dir().is_dir())
    }

    /// Stores renewed seals, unless another process changes the store: a later start can store them as well, and the files
    /// are valid nevertheless.
    fn store_renewed(&self, dir: &Path, checked: &Manifest, is_renewed: bool) {
        if !is_renewed {
            return;
        }
        let Some(_lock) = StoreLock::try_acquire(&self.dirs.data) else { return };
        if let Ok(Some(mut stored)) = Manifest::read(dir) {
            for (name, seal) in &mut stored.seals {
                if let Some(renewed) = checked.seals.get(name).filter(|renewed| renewed.sha256 == seal.sha256) {
                    seal.clone_from(renewed);
                }
            }
            let _ = stored.write(dir);
        }
    }

    /// Returns true if this process knows that all contents are prepared. Reads nothing.
    pub(crate) fn is_known_complete(&self) -> bool {
        self.of_known(|manifest| self.is_prepared(manifest, Preparation::Complete)) == Some(true)
    }

    /// Returns true if a manifest has the required contents: an image, and the code that its guests start with.
    pub(super) fn is_prepared(&self, manifest: &Manifest, required: Preparation<'_>) -> bool {
        if self.spec.component.is_some() {
            return manifest.seals.contains_key(CODE_FILE);
        }
        let has_code = |facts: &ImageFacts| manifest.seals.contains_key(&code_file(facts.code.as_deref()));
        let has_image = |name: &str| match manifest.images.get(name) {
            Some(facts) => has_code(facts),
            None => self.initial_facts(name, manifest).as_ref().is_some_and(has_code),
        };
        match required {
            Preparation::Image(name) => has_image(name),
            Preparation::Complete => {
                let first = self.spec.codes().first().copied().flatten();
                let has_part =
                    |part: usize, split: &SplitSpec| manifest.seals.contains_key(&part_file(&split.parts[part].name));
                let has_parts = self
                    .spec
                    .split
                    .as_ref()
                    .is_none_or(|split| later_parts(split, first).all(|part| has_part(part, split)));
                has_parts && self.spec.image.iter().all(|recipe| has_image(&recipe.name))
            }
        }
    }

    /// Loads the compiled code up to a part, or all code that has no parts.
    pub(crate) fn load_code(&self, last: Option<&str>) -> Result<CodeImage, WasmError> {
        let dir = self.prepared_dir();
        let manifest = self.prepared()?;
        self.load_code_from(&dir, &manifest.ok_or_else(|| WasmError::damaged(&dir, "not prepared"))?, last)
    }

    /// Loads all compiled code of images, and keeps it for other stores of this engine, in this process and in processes
    /// that are forked later. Starts no thread.
    ///
    /// # Errors
    /// [`WasmError`] if an artefact is damaged. Code that was never compiled is not an error.
    pub fn keep_code(&self) -> Result<(), WasmError> {
        let Some(manifest) = self.prepared()? else { return Ok(()) };
        let dir = self.prepared_dir();
        let codes = self.spec.codes();
        for last in codes.into_iter().filter(|last| manifest.seals.contains_key(&code_file(*last))) {
            let code = self.load_code_from(&dir, &manifest, last)?;
            self.engine.kept().put(self.code_files(&dir, &manifest, last), code);
        }
        Ok(())
    }

    /// Returns the files of the code up to a part that are compiled: its own and those of the parts that follow.
    fn code_files(&self, dir: &Path, manifest: &Manifest, last: Option<&str>) -> CodeFiles {
        let parts = self
            .spec
            .split
            .iter()
            .flat_map(|split| later_parts(split, last).map(|part| part_file(&split.parts[part].name)));
        let seals = std::iter::once(code_file(last))
            .chain(parts)
            .filter_map(|name| manifest.seals.get(&name).map(|seal| (name, seal.clone())));
        CodeFiles { dir: dir.to_owned(), seals: seals.collect() }
    }

    /// Loads compiled code from a directory of artefacts, unless the engine keeps it.
    pub(crate) fn load_code_from(
        &self,
        dir: &Path,
        manifest: &Manifest,
        last: Option<&str>,
    ) -> Result<CodeImage, WasmError> {
        if !self.engine.kept().is_empty() {
            let files = self.code_files(dir, manifest, last);
            if let Some(code) = self.engine.kept().get(&files) {
                // Code is mapped from its files, which must not have changed in place.
                files.seals.iter().try_for_each(|(name, seal)| seal.open(dir, name).map(drop))?;
                return Ok(code);
            }
        }
        let name = code_file(last);
        let code = CodeFile { file: manifest.open(dir, &name)?, path: manifest.path(dir, &name) };
        let later = match &self.spec.split {
            Some(split) => {
                let parts = later_parts(split, last);
                let first = parts.start;
                let open_part = |part: usize| match part_file(&split.parts[part].name) {
                    file if manifest.seals.contains_key(&file) => {
                        Ok(Some(CodeFile { file: manifest.open(dir, &file)?, path: manifest.path(dir, &file) }))
                    }
                    // It is not compiled yet.
                    _ => Ok(None),
                };
                Some((first, parts.map(open_part).collect::<Result<_, WasmError>>()?))
            }
            None => None,
        };
        CodeImage::load(&self.engine, code, later)
    }

    /// Loads the compiled component.
    pub(crate) fn load_component(&self) -> Result<ComponentCode, WasmError> {
        let dir = self.prepared_dir();
        let manifest = self.prepared()?;
        let manifest = manifest.ok_or_else(|| WasmError::damaged(&dir, "not prepared"))?;
        ComponentCode::load(&self.engine, &dir.join(CODE_FILE), manifest.open(&dir, CODE_FILE)?)
    }

    /// Loads an image.
    pub(crate) fn load_image(&self, image: &str) -> Result<(MemoryImage, Seal), WasmError> {
        let dir = self.prepared_dir();
        let manifest = self.prepared()?;
        let manifest = manifest.ok_or_else(|| WasmError::damaged(&dir, "not prepared"))?;
        let name = image_file(image);
        let facts = manifest.images.get(image).cloned().or_else(|| self.initial_facts(image, &manifest));
        let facts = facts.ok_or_else(|| WasmError::damaged(&dir.join(&name), "no such image"))?;
        let file = manifest.open(&dir, &name)?;
        let seal = manifest.seals[&name].clone();
        Ok((MemoryImage::open(&seal.path(&dir, &name), file, facts)?, seal))
    }

    /// Returns the properties of the initial image, if that is the image of this name: the memory of the module before any of its code
    /// runs. Its guests start with a saved state.
    fn initial_facts(&self, image: &str, manifest: &Manifest) -> Option<ImageFacts> {
        if image != INITIAL_IMAGE || !manifest.seals.contains_key(INITIAL_IMAGE_FILE) {
            return None;
        }
        let first = manifest.images.get(&self.spec.image.first()?.name)?;
        let ImageFacts { globals, code, parts, .. } = first.clone();
        Some(ImageFacts { globals, code, parts, ..ImageFacts::default() })
    }

    pub(crate) fn make_dirs(&self) -> Result<(), WasmError> {
        for dir in [&self.dirs.data, &self.dirs.cache] {
            private_dir(dir).map_err(WasmError::io("create", dir))?;
        }
        Ok(())
    }
}

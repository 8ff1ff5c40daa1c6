//! Packages of jobs: the requested requirements, their resolution, and the layers through which guests see them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use codebox_core::{
    Backend, BoxFuture, GuestPath, ImageName, Isolation, Language, Layer, PYTHON_PACKAGES, Progress, ResultKind,
    RunnerError,
};
use codebox_service::catalog::{Catalog, RuntimeLibrary};
use codebox_service::config::Settings;
use codebox_service::{Admitted, Escalation, LayerTarget, PackageLayers, PackageNeeds, PackageProvider, StoredPackage};

use crate::{
    BuildPlace, ConfigFiles, Decision, Environment, FetchError, House, HouseError, Index, IndexSettings, Lock,
    NpmStore, Resolved, Target, Wheel,
};

mod asked;
mod brought;
mod build;
mod choose;
mod compile;
mod image;
mod npm;

use asked::Asked;
use brought::Brought;
use build::Shop;
pub use compile::{CompileWork, Compiler};
use npm::{Locked, Npm};

/// The stack size of the resolver's thread in bytes. The resolver's futures are large.
const STACK: usize = 16 << 20;

/// A lock that protects an environment from removal until it is dropped.
#[expect(dead_code, reason = "that it is there is all it does")]
enum Held {
    Python(Environment),
    Npm(File),
}

/// The package stores and settings of this machine.
pub struct JobPackages {
    house: House,
    dirs: PackageDirs,
    settings: Settings,
    catalog: Arc<dyn Catalog>,
    env: EnvLookup,
    compiler: Compiler,
    /// The environments that this process shows to guests.
    held: Mutex<Vec<Held>>,
    /// Shared lock that protects Python packages from removal. Held from the choice of a job's packages until its
    /// environment is locked.
    choosing: Mutex<Option<File>>,
}

/// Directories of the package stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageDirs {
    /// Packages of Python, and the cached answers of indexes.
    pub python: PathBuf,
    /// Packages of npm.
    pub npm: PathBuf,
    /// The user's home directory, for npm's configuration.
    pub home: Option<PathBuf>,
}

/// Function that returns the value of an environment variable, for the configuration of indexes and registries.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

impl JobPackages {
    /// Creates the provider over the stores in `dirs`, with the runtimes of `catalog`. `compiler` compiles packages to
    /// bytecode.
    #[must_use]
    pub fn new(
        dirs: PackageDirs,
        settings: Settings,
        catalog: Arc<dyn Catalog>,
        env: EnvLookup,
        compiler: Compiler,
    ) -> Self {
        let house = House::at(dirs.python.clone());
        Self { house, dirs, settings, catalog, env, compiler, held: Mutex::default(), choosing: Mutex::default() }
    }

    /// Determines which packages a job needs and in which isolations they are available. Source distributions that have
    /// to be built for that are built by one of `engines`.
    async fn needs(
        &self,
        admitted: &Admitted,
        engines: Vec<&dyn Backend>,
        progress: &dyn Progress,
    ) -> Result<PackageNeeds, RunnerError> {
        if npm::wants(admitted) {
            return self.npm(admitted, Locked::Kept)?.needs(admitted, progress);
        }
        npm::check_unasked(admitted)?;
        let Some(asked) = Asked::of(admitted)? else { return Ok(PackageNeeds::default()) };
        asked.check(&self.settings.packages)?;
        asked.notes.iter().for_each(|note| progress.note(note));
        let mut needs = PackageNeeds { names: asked.texts(), notes: asked.notes.clone(), ..PackageNeeds::default() };
        if !admitted.job().isolations.contains(Isolation::Wasm) || admitted.container_image().is_some() {
            return Ok(needs);
        }
        let store = self.python(progress)?;
        let version = store.version.clone();
        let mut shop = Shop::anywhere(self, (admitted, &asked), engines.clone(), progress)?;
        let decision = match asked.other_python(&version) {
            Some(python) => Decision::Native(vec![python]),
            _ if asked.wanted.is_empty() => return Ok(needs),
            _ => {
                *self.choosing() = Some(self.house.beside_others().map_err(not_installed)?);
                self.decided(&asked, &store, &mut shop, progress).await?
            }
        };
        match decision {
            Decision::Pure(resolved) => {
                needs.notes.extend(told(&resolved));
                let built_in = resolved.built_in.iter().map(|(name, _)| name);
                let names = built_in.chain(resolved.files().map(|file| &file.name));
                needs.pure = names.cloned().collect();
            }
            Decision::Native(names) => {
                if self.settings.escalation == Some(Escalation::Forbidden) {
                    let line = format!(
                        "package {} is not available in WebAssembly, and the policy does not allow escalation",
                        names[0]
                    );
                    return Err(RunnerError::new(ResultKind::EscalationRefused, line)
                        .with_fix("use --isolation container, or allow escalation in your configuration"));
                }
                if asked.other_python(&version).is_some() {
                    self.check_image(&asked, &engines).await?;
                }
                needs.notes.push(format!("packages that require a container: {}", names.join(", ")));
                needs.native = names;
            }
        }
        needs.notes.append(&mut shop.notes);
        Ok(needs)
    }

    /// Rejects a script that requires a Python version which containers do not have either. The check is skipped if no
    /// engine can report the version now.
    async fn check_image(&self, asked: &Asked, engines: &[&dyn Backend]) -> Result<(), RunnerError> {
        for engine in engines {
            if let Ok(place) = image::of(&self.house, *engine, None).await {
                return asked.check_python(&place.target);
            }
        }
        Ok(())
    }

    /// Returns the package layers of a WebAssembly guest. The resolution in [`needs`](Self::needs) already built all
    /// source distributions.
    async fn in_wasm(&self, admitted: &Admitted, progress: &dyn Progress) -> Result<PackageLayers, RunnerError> {
        if npm::wants(admitted) {
            return self.shown_of_npm(admitted, Isolation::Wasm, progress);
        }
        let asked = Asked::of(admitted)?.filter(|asked| !asked.wanted.is_empty());
        let Some(asked) = asked else { return Ok(PackageLayers::default()) };
        let store = self.python(progress)?;
        let mut shop = Shop::anywhere(self, (admitted, &asked), Vec::new(), progress)?;
        let _turn = self.house.beside_others().map_err(not_installed)?;
        let resolved = match self.decided(&asked, &store, &mut shop, progress).await? {
            Decision::Pure(resolved) => resolved,
            Decision::Native(names) => {
                let line =
                    format!("package {} is not available in WebAssembly: it has no pure wheel", names.join(", "));
                return Err(RunnerError::new(ResultKind::EscalationRefused, line).with_fix("use --isolation container"));
            }
        };
        let wheels = self.ready(&asked, resolved, &mut shop, progress).await?;
        let runtime = store.key.clone();
        let uncompiled = self.house.uncompiled(&wheels, &runtime);
        let whole = uncompiled.is_empty() || compile::start(&self.house, &self.compiler, &uncompiled, &runtime)?;
        if !whole {
            progress
                .note("cannot compile all packages: this run compiles modules on import, and the next run tries again");
        }
        let target = format!("wasm-{}", store.version);
        let compiled = whole.then_some(runtime.as_str());
        let layers = self.shown(self.house.environment(&wheels, &target, compiled, &[]), asked.lock_file())?;
        // Built wheels were reported when they were built.
        Ok(PackageLayers { layers, notes: Vec::new() })
    }

    /// Returns the package layers of a container guest: the packages that the job requests, and the packages of the
    /// WebAssembly runtime in `brought` that the image lacks.
    async fn in_container(
        &self,
        admitted: &Admitted,
        brought: &[Brought],
        progress: &dyn Progress,
        engine: &dyn Backend,
    ) -> Result<PackageLayers, RunnerError> {
        if npm::wants(admitted) {
            return self.shown_of_npm(admitted, Isolation::Container, progress);
        }
        let asked = Asked::of(admitted)?;
        let named = admitted.container_image();
        // An image that the user names is expected to be complete, and a lock lists all packages to install.
        let complete = named.is_some() || asked.as_ref().is_some_and(|asked| asked.lock.is_some());
        let brought = if complete { &[] } else { brought };
        if asked.is_none() && brought.is_empty() {
            return Ok(PackageLayers::default());
        }
        let place = image::of(&self.house, engine, named.map(ImageName::as_str)).await?;
        let asked = asked.unwrap_or_default();
        asked.check_python(&place.target)?;
        let mut notes = Vec::new();
        let with = brought::lacking(brought, (&asked, &self.settings.packages), &place.target, &mut notes);
        if !with.is_empty() {
            match self
                .for_container(&asked.with(with.clone()), (admitted, engine, named), place.clone(), progress)
                .await
            {
                Ok(mut provided) => {
                    provided.notes.splice(..0, notes);
                    return Ok(provided);
                }
                // The user did not request these packages, and the program may work without them.
                Err(failure) => notes.push(brought::not_installed(&with, &failure)),
            }
        }
        if asked.wanted.is_empty() {
            return Ok(PackageLayers { notes, ..PackageLayers::default() });
        }
        let mut provided = self.for_container(&asked, (admitted, engine, named), place, progress).await?;
        provided.notes.splice(..0, notes);
        Ok(provided)
    }

    /// Installs the requested packages for the Python of the image.
    async fn for_container(
        &self,
        asked: &Asked,
        (admitted, engine, named): (&Admitted, &dyn Backend, Option<&ImageName>),
        place: BuildPlace,
        progress: &dyn Progress,
    ) -> Result<PackageLayers, RunnerError> {
        let target = place.target.clone();
        let mut shop = Shop::anywhere(self, (admitted, asked), Vec::new(), progress)?.at(engine, place, named);
        let _turn = self.house.beside_others().map_err(not_installed)?;
        let resolved = self.exact(asked, &target, &mut shop, progress).await?;
        let mut notes = told(&resolved);
        let wheels = self.ready(asked, resolved, &mut shop, progress).await?;
        notes.append(&mut shop.notes);
        let name = container_name(&target);
        let layers = self.shown(self.house.environment(&wheels, &name, None, target.library()), asked.lock_file())?;
        Ok(PackageLayers { layers, notes })
    }

    /// Returns the wheels of a resolution after downloading or building the missing ones.
    async fn ready(
        &self,
        asked: &Asked,
        resolved: Resolved,
        shop: &mut Shop<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Wheel>, RunnerError> {
        asked.check_hashes(&resolved)?;
        self.bring(&resolved.wheels, asked.lock_file(), progress)?;
        let mut wheels = resolved.wheels;
        for sdist in &resolved.sources {
            wheels.push(shop.wheel(sdist).await?);
        }
        wheels.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(wheels)
    }

    /// Returns the library of the Python runtime, which is installed if necessary.
    fn python(&self, progress: &dyn Progress) -> Result<RuntimeLibrary, RunnerError> {
        Ok(self.catalog.library(&Language::Python, progress)?)
    }

    fn npm(&self, admitted: &Admitted, locked: Locked) -> Result<Npm<'_>, RunnerError> {
        Npm::of(admitted, (&self.settings, &self.dirs, &*self.env), locked)
    }

    fn shown_of_npm(
        &self,
        admitted: &Admitted,
        isolation: Isolation,
        progress: &dyn Progress,
    ) -> Result<PackageLayers, RunnerError> {
        let (layer, held) = self.npm(admitted, Locked::Kept)?.shown(isolation, progress)?;
        self.hold(Held::Npm(held));
        Ok(PackageLayers { layers: vec![layer], notes: Vec::new() })
    }

    fn hold(&self, held: Held) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    fn choosing(&self) -> MutexGuard<'_, Option<File>> {
        self.choosing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the lock file of a script next to it.
    async fn lock_script(
        &self,
        admitted: &Admitted,
        script: &Path,
        engines: &[&dyn Backend],
        progress: &dyn Progress,
    ) -> Result<PathBuf, RunnerError> {
        if npm::wants(admitted) {
            return self.npm(admitted, Locked::Anew)?.lock(script, progress);
        }
        let Some(asked) = Asked::unlocked(admitted)?.filter(|asked| !asked.wanted.is_empty()) else {
            let line = format!("{} requests no packages", script.display());
            let fix = match npm::is_for(admitted.job()) {
                true => "pass them with --with",
                false => "list them in a block `# /// script`, with --with or with -r",
            };
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        };
        asked.check(&self.settings.packages)?;
        let store = self.python(progress)?;
        let _turn = self.house.beside_others().map_err(not_installed)?;
        let mut lock = Lock::new(&asked.wanted);
        let wasm = target(&store, Vec::new());
        let lock = {
            let mut shop = Shop::anywhere(self, (admitted, &asked), engines.to_vec(), progress)?;
            let found = match asked.other_python(wasm.python()) {
                Some(python) => Decision::Native(vec![python]),
                None => self.asked_anew(&asked, &store, &mut shop).await?,
            };
            let found = self.as_built(found, &wasm, &mut shop).await?;
            let only_in_container = matches!(found, Decision::Native(_));
            match found {
                Decision::Pure(resolved) => {
                    asked.check_hashes(&resolved)?;
                    lock.add(&wasm, resolved);
                }
                Decision::Native(names) => lock.add_native(&wasm, names),
            }
            let named = admitted.container_image();
            let (mut shop, mut container) = (shop, Target::usual());
            for engine in engines.iter().copied() {
                if let Ok(place) = image::of(&self.house, engine, named.map(ImageName::as_str)).await {
                    container = place.target.clone();
                    shop = shop.at(engine, place, named);
                    break;
                }
            }
            let exact = match asked.check_python(&container) {
                Ok(()) => self.exact_anew(&asked.wanted, &container, &mut shop).await,
                Err(failure) if only_in_container => return Err(failure),
                Err(failure) => Err(failure),
            };
            match exact {
                Ok(resolved) => {
                    asked.check_hashes(&resolved)?;
                    lock.add(&container, resolved);
                }
                Err(failure) => progress.note(&format!("cannot lock packages for containers: {}", failure.message())),
            }
            lock
        };
        let text = lock.to_text().map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let file = asked::lock_of(script);
        asked::write_lock(&file, &text)?;
        Ok(file)
    }

    /// Returns all stored packages.
    fn stored(&self) -> Vec<StoredPackage> {
        let python = self.house.kept().into_iter().map(|one| StoredPackage {
            name: one.file.split_once('-').map_or(one.file.as_str(), |(name, _)| name).to_owned(),
            file: one.file,
            content: format!("sha256-{}", one.sha256),
            size: one.size,
            targets: one.targets.into_iter().collect(),
            origin: one.origin.map(|(file, sha256)| (file, format!("sha256-{sha256}"))),
        });
        let npm = NpmStore::at(&self.dirs.npm).kept().into_iter().map(|one| StoredPackage {
            file: format!("{}@{}", one.name, one.version),
            name: one.name,
            content: one.content,
            size: one.size,
            targets: vec!["npm".to_owned()],
            origin: None,
        });
        python.chain(npm).collect()
    }

    /// Removes all unused packages.
    fn prune_stores(&self, progress: &dyn Progress) -> Result<(usize, u64), RunnerError> {
        let waits = || progress.note("waiting for another run to install packages");
        let python = self.house.prune(&waits).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let npm = NpmStore::at(&self.dirs.npm).prune(&waits);
        let npm = npm.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let both = [python, npm].into_iter();
        Ok(both.fold((0, 0), |(count, bytes), one| (count + one.environments + one.wheels, bytes + one.bytes)))
    }

    /// Downloads the wheels that are missing from the store. If a downloaded wheel differs from the chosen one, the
    /// error names the lock that chose it.
    fn bring(&self, wheels: &[Wheel], lock: Option<&Path>, progress: &dyn Progress) -> Result<(), RunnerError> {
        let missing = self.house.missing(wheels);
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|wheel| format!("{} {}", wheel.name, wheel.version)).collect();
        progress.note(&format!("installing {}", names.join(", ")));
        self.with_index(async |index| {
            let brought = self.house.bring(wheels, index, &codebox_core::Silent).await;
            brought.map_err(|error| not_as_chosen(error, lock))
        })
    }

    fn shown(
        &self,
        environment: Result<Environment, HouseError>,
        lock: Option<&Path>,
    ) -> Result<Vec<Layer>, RunnerError> {
        let environment = environment.map_err(|error| not_as_chosen(error, lock))?;
        let layer = layer(&environment.modules, PYTHON_PACKAGES)?;
        self.hold(Held::Python(environment));
        *self.choosing() = None;
        Ok(vec![layer])
    }

    /// Returns an environment variable. If the configuration sets the only index, that index replaces the ones of the
    /// environment and of uv's configuration files.
    fn variable(&self, name: &str) -> Option<String> {
        match (&self.settings.packages.index, name) {
            (Some(index), "UV_DEFAULT_INDEX") => Some(index.clone()),
            (Some(_), "UV_NO_CONFIG") => Some("1".to_owned()),
            (Some(_), name) if name.contains("INDEX") || name.contains("FIND_LINKS") || name == "UV_CONFIG_FILE" => {
                None
            }
            _ => (self.env)(name),
        }
    }

    /// Runs index queries on a thread of its own. The thread ends here, because a run confines its process later.
    fn with_index<T: Send>(
        &self,
        work: impl AsyncFnOnce(&Index<'_>) -> Result<T, RunnerError> + Send,
    ) -> Result<T, RunnerError> {
        let inside = || {
            let settings = IndexSettings::from_user(&|name| self.variable(name), &ConfigFiles::OfUser);
            let settings = settings.map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
            let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
            executor.block_on(async {
                let index = Index::open(&settings, &self.house.index_cache()).await;
                work(&index.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?).await
            })
        };
        let gone = || RunnerError::new(ResultKind::InternalError, "the package index thread has exited");
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("codebox-index".to_owned()).stack_size(STACK);
            let thread = thread.spawn_scoped(scope, inside).map_err(|_| gone())?;
            thread.join().map_err(|_| gone())?
        })
    }
}

impl PackageProvider for JobPackages {
    fn may_be_requested(&self, admitted: &Admitted) -> bool {
        let job = admitted.job();
        let has_metadata = || job.source.text().is_some_and(has_script_metadata);
        let has_lock = || admitted.script().is_some_and(|script| asked::lock_of(script).symlink_metadata().is_ok());
        !job.packages.is_empty() || !admitted.requirements().is_empty() || has_metadata() || has_lock()
    }

    fn resolve<'a>(
        &'a self,
        admitted: &'a Admitted,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageNeeds, RunnerError>> {
        Box::pin(self.needs(admitted, engines.to_vec(), progress))
    }

    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        target: LayerTarget<'a>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PackageLayers, RunnerError>> {
        Box::pin(async move {
            match target {
                LayerTarget::Wasm => self.in_wasm(admitted, progress).await,
                LayerTarget::Container { engine, imports } => {
                    let brought = brought::by_runtime(&*self.catalog, &admitted.job().language, imports);
                    self.in_container(admitted, &brought, progress, engine).await
                }
            }
        })
    }

    fn lock<'a>(
        &'a self,
        admitted: &'a Admitted,
        script: &'a Path,
        engines: &'a [&'a dyn Backend],
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<PathBuf, RunnerError>> {
        Box::pin(self.lock_script(admitted, script, engines, progress))
    }

    fn list(&self) -> Vec<StoredPackage> {
        self.stored()
    }

    fn prune(&self, progress: &dyn Progress) -> Result<(usize, u64), RunnerError> {
        self.prune_stores(progress)
    }
}

/// Returns true if a program may have a block of script metadata.
fn has_script_metadata(text: &[u8]) -> bool {
    const MARKER: &[u8] = b"# /// script";
    text.windows(MARKER.len()).any(|window| window == MARKER)
}

/// Returns the layer that shows a host directory to guests.
fn layer(host: &Path, guest: &str) -> Result<Layer, RunnerError> {
    let guest = GuestPath::new(guest).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
    Ok(Layer { host: host.to_owned(), guest })
}

/// Returns the target name of environments for a container.
fn container_name(target: &Target) -> String {
    format!("{}-{}", target.name(), target.python())
}

/// Returns the notes on the chosen packages for the user.
fn told(resolved: &Resolved) -> Vec<String> {
    let built_in = resolved.built_in.iter().map(|(name, version)| format!("{name} {version} is built in"));
    let mut files: Vec<String> = resolved.files().map(|file| format!("{} {}", file.name, file.version)).collect();
    files.sort();
    let files = (!files.is_empty()).then(|| format!("packages: {}", files.join(", ")));
    built_in.chain(files).collect()
}

/// Returns the target of packages for the WebAssembly runtime.
fn target(library: &RuntimeLibrary, built_in: Vec<crate::BuiltIn>) -> Target {
    Target::Wasm { python: library.version.clone(), built_in }
}

fn not_installed(error: HouseError) -> RunnerError {
    RunnerError::of(ResultKind::InstallFailed, &error)
}

/// Converts an error about wheels. If a wheel differs from the chosen one, the fix names the lock that chose it, if
/// any.
fn not_as_chosen(error: HouseError, lock: Option<&Path>) -> RunnerError {
    let is_other = is_other(&error);
    let failure = not_installed(error);
    match lock {
        _ if !is_other => failure,
        Some(lock) => failure.with_fix(format!("recreate {} with codebox lock", lock.display())),
        None => failure.with_fix(ASK_ANOTHER),
    }
}

/// Returns true if an error means that a wheel differs from the expected one.
fn is_other(error: &HouseError) -> bool {
    use FetchError::{WrongHash, WrongSize};
    matches!(error, HouseError::Wheel { .. } | HouseError::Fetch(WrongHash { .. } | WrongSize { .. }))
}

/// The fix for a wheel that differs from the expected one.
const ASK_ANOTHER: &str = "request another version, or use another index";

//! Packages of jobs: the requested requirements, their resolution, and the layers through which guests see them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use codebox_core::{
    Backend, GuestPath, ImageName, Isolation, Language, Layer, PYTHON_PACKAGES, Progress, ResultKind, RunnerError,
};
use codebox_service::catalog::{Catalog, RuntimeLibrary};
use codebox_service::config::Settings;
use codebox_service::{Admitted, EnvLookup, Escalation, PackageLayers, PackageNeeds, StoredPackage, lock_path};

use crate::index::Index;
use crate::lock::Lock;
use crate::npm::NpmStore;
use crate::package_store::{BuildImage, Environment, PackageStore, StoreError};
use crate::resolve::{Decision, Resolved};
use crate::settings::{ConfigFiles, IndexSettings};
use crate::target::{BuiltIn, Target};
use crate::wheel::Wheel;

mod build;
mod bundled;
mod compile;
mod errors;
mod image;
mod interface;
mod npm;
mod request;
mod resolution;

use build::SdistBuilder;
use bundled::BundledImport;
pub use compile::{CompileWork, Compiler};
use errors::{mismatch_error, not_installed};
use npm::{LockPolicy, NpmPackages};
use request::PackageRequest;

/// The stack size of the resolver's thread in bytes. The resolver's futures are large.
const RESOLVER_STACK_SIZE: usize = 16 << 20;

/// A lock that protects an environment from removal until it is dropped.
#[expect(dead_code, reason = "the values are held only for their effect on drop")]
enum EnvironmentLock {
    Python(Environment),
    NpmPackages(File),
}

/// The package stores and settings of this machine.
pub struct JobPackages {
    package_store: PackageStore,
    dirs: PackageDirs,
    settings: Settings,
    catalog: Arc<dyn Catalog>,
    env: EnvLookup,
    compiler: Compiler,
    /// The environments that this process shows to guests.
    held: Mutex<Vec<EnvironmentLock>>,
    /// Shared lock that protects Python packages from removal. Held from the choice of a job's packages until its
    /// environment is locked.
    resolution_lock: Mutex<Option<File>>,
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
        let package_store = PackageStore::at(dirs.python.clone());
        Self {
            package_store,
            dirs,
            settings,
            catalog,
            env,
            compiler,
            held: Mutex::default(),
            resolution_lock: Mutex::default(),
        }
    }

    /// Determines which packages a job needs and in which isolations they are available. Source distributions that have
    /// to be built for that are built by one of `engines`.
    async fn needs(
        &self,
        admitted: &Admitted,
        engines: Vec<&dyn Backend>,
        progress: &dyn Progress,
    ) -> Result<PackageNeeds, RunnerError> {
        if npm::requests_packages(admitted) {
            return self.npm(admitted, LockPolicy::UseExisting)?.needs(admitted, progress);
        }
        npm::reject_unused_lock(admitted)?;
        let Some(request) = PackageRequest::of(admitted)? else { return Ok(PackageNeeds::default()) };
        request.check(&self.settings.packages)?;
        request.notes.iter().for_each(|note| progress.note(note));
        let mut needs =
            PackageNeeds { names: request.texts(), notes: request.notes.clone(), ..PackageNeeds::default() };
        if !admitted.job().isolations.contains(Isolation::Wasm) || admitted.container_image().is_some() {
            return Ok(needs);
        }
        let library = self.python(progress)?;
        let version = library.version.clone();
        let mut builder = SdistBuilder::for_any_image(self, admitted, &request, engines.clone(), progress)?;
        let decision = match request.unsatisfied_python(&version) {
            Some(python) => Decision::Native(vec![python]),
            _ if request.requirements.is_empty() => return Ok(needs),
            _ => {
                *self.resolution_lock() = Some(self.package_store.acquire_shared_lock().map_err(not_installed)?);
                self.decide_tier(&request, &library, &mut builder, progress).await?
            }
        };
        match decision {
            Decision::Pure(resolved) => {
                needs.notes.extend(package_notes(&resolved));
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
                if request.unsatisfied_python(&version).is_some() {
                    self.check_image(&request, &engines).await?;
                }
                needs.notes.push(format!("packages that require a container: {}", names.join(", ")));
                needs.native = names;
            }
        }
        needs.notes.append(&mut builder.notes);
        Ok(needs)
    }

    /// Rejects a script that requires a Python version which containers do not have either. The check is skipped if no
    /// engine can report the version now.
    async fn check_image(&self, request: &PackageRequest, engines: &[&dyn Backend]) -> Result<(), RunnerError> {
        for engine in engines {
            if let Ok(build_image) = image::of(&self.package_store, *engine, None).await {
                return request.check_python(&build_image.target);
            }
        }
        Ok(())
    }

    /// Returns the package layers of a WebAssembly guest. The resolution in [`needs`](Self::needs) already built all
    /// source distributions.
    async fn wasm_layers(&self, admitted: &Admitted, progress: &dyn Progress) -> Result<PackageLayers, RunnerError> {
        if npm::requests_packages(admitted) {
            return self.npm_layers(admitted, Isolation::Wasm, progress);
        }
        let request = PackageRequest::of(admitted)?.filter(|request| !request.requirements.is_empty());
        let Some(request) = request else { return Ok(PackageLayers::default()) };
        let library = self.python(progress)?;
        let mut builder = SdistBuilder::for_any_image(self, admitted, &request, Vec::new(), progress)?;
        let _guard = self.package_store.acquire_shared_lock().map_err(not_installed)?;
        let resolved = match self.decide_tier(&request, &library, &mut builder, progress).await? {
            Decision::Pure(resolved) => resolved,
            Decision::Native(names) => {
                let line =
                    format!("package {} is not available in WebAssembly: it has no pure wheel", names.join(", "));
                return Err(RunnerError::new(ResultKind::EscalationRefused, line).with_fix("use --isolation container"));
            }
        };
        let wheels = self.fetch_or_build(&request, resolved, &mut builder, progress).await?;
        let runtime = library.key.clone();
        let uncompiled = self.package_store.uncompiled(&wheels, &runtime);
        let all_compiled = uncompiled.is_empty()
            || compile::compile_wheels(&self.package_store, &self.compiler, &uncompiled, &runtime)?;
        if !all_compiled {
            progress
                .note("cannot compile all packages: this run compiles modules on import, and the next run tries again");
        }
        let target = format!("wasm-{}", library.version);
        let compiled = all_compiled.then_some(runtime.as_str());
        let layers =
            self.guest_layers(self.package_store.environment(&wheels, &target, compiled, &[]), request.lock_file())?;
        // Built wheels were reported when they were built.
        Ok(PackageLayers { layers, notes: Vec::new() })
    }

    /// Returns the package layers of a container guest: the packages that the job requests, and the packages of the
    /// WebAssembly runtime in `bundled` that the image lacks.
    async fn container_layers(
        &self,
        admitted: &Admitted,
        bundled: &[BundledImport],
        progress: &dyn Progress,
        engine: &dyn Backend,
    ) -> Result<PackageLayers, RunnerError> {
        if npm::requests_packages(admitted) {
            return self.npm_layers(admitted, Isolation::Container, progress);
        }
        let request = PackageRequest::of(admitted)?;
        let named = admitted.container_image();
        // An image that the user names is expected to be complete, and a lock lists all packages to install.
        let is_complete = named.is_some() || request.as_ref().is_some_and(|request| request.lock.is_some());
        let bundled = if is_complete { &[] } else { bundled };
        if request.is_none() && bundled.is_empty() {
            return Ok(PackageLayers::default());
        }
        let build_image = image::of(&self.package_store, engine, named.map(ImageName::as_str)).await?;
        let request = request.unwrap_or_default();
        request.check_python(&build_image.target)?;
        let mut notes = Vec::new();
        let with =
            bundled::missing_requirements(bundled, &request, &self.settings.packages, &build_image.target, &mut notes);
        if !with.is_empty() {
            match self
                .install_for_container(
                    &request.with(with.clone()),
                    admitted,
                    engine,
                    named,
                    build_image.clone(),
                    progress,
                )
                .await
            {
                Ok(mut provided) => {
                    provided.notes.splice(..0, notes);
                    return Ok(provided);
                }
                // The user did not request these packages, and the program may work without them.
                Err(failure) => notes.push(bundled::not_installed(&with, &failure)),
            }
        }
        if request.requirements.is_empty() {
            return Ok(PackageLayers { notes, ..PackageLayers::default() });
        }
        let mut provided = self.install_for_container(&request, admitted, engine, named, build_image, progress).await?;
        provided.notes.splice(..0, notes);
        Ok(provided)
    }

    /// Installs the requested packages for the Python of the image.
    async fn install_for_container(
        &self,
        request: &PackageRequest,
        admitted: &Admitted,
        engine: &dyn Backend,
        named: Option<&ImageName>,
        build_image: BuildImage,
        progress: &dyn Progress,
    ) -> Result<PackageLayers, RunnerError> {
        let target = build_image.target.clone();
        let mut builder =
            SdistBuilder::for_any_image(self, admitted, request, Vec::new(), progress)?.at(engine, build_image, named);
        let _guard = self.package_store.acquire_shared_lock().map_err(not_installed)?;
        let resolved = self.container_resolution(request, &target, &mut builder, progress).await?;
        let mut notes = package_notes(&resolved);
        let wheels = self.fetch_or_build(request, resolved, &mut builder, progress).await?;
        notes.append(&mut builder.notes);
        let name = container_name(&target);
        let layers = self.guest_layers(
            self.package_store.environment(&wheels, &name, None, target.library()),
            request.lock_file(),
        )?;
        Ok(PackageLayers { layers, notes })
    }

    /// Returns the wheels of a resolution after downloading or building the missing ones.
    async fn fetch_or_build(
        &self,
        request: &PackageRequest,
        resolved: Resolved,
        builder: &mut SdistBuilder<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Wheel>, RunnerError> {
        request.check_hashes(&resolved)?;
        self.download(&resolved.wheels, request.lock_file(), progress)?;
        let mut wheels = resolved.wheels;
        for sdist in &resolved.sources {
            wheels.push(builder.wheel(sdist).await?);
        }
        wheels.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(wheels)
    }

    /// Returns the library of the Python runtime, which is installed if necessary.
    fn python(&self, progress: &dyn Progress) -> Result<RuntimeLibrary, RunnerError> {
        Ok(self.catalog.library(&Language::Python, progress)?)
    }

    fn npm(&self, admitted: &Admitted, locked: LockPolicy) -> Result<NpmPackages<'_>, RunnerError> {
        NpmPackages::of(admitted, &self.settings, &self.dirs, &self.env, locked)
    }

    fn npm_layers(
        &self,
        admitted: &Admitted,
        isolation: Isolation,
        progress: &dyn Progress,
    ) -> Result<PackageLayers, RunnerError> {
        let (layer, held) = self.npm(admitted, LockPolicy::UseExisting)?.guest_layers(isolation, progress)?;
        self.keep_locked(EnvironmentLock::NpmPackages(held));
        Ok(PackageLayers { layers: vec![layer], notes: Vec::new() })
    }

    fn keep_locked(&self, held: EnvironmentLock) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(held);
    }

    fn resolution_lock(&self) -> MutexGuard<'_, Option<File>> {
        self.resolution_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the lock file of a script next to it.
    async fn lock_script(
        &self,
        admitted: &Admitted,
        script: &Path,
        engines: &[&dyn Backend],
        progress: &dyn Progress,
    ) -> Result<PathBuf, RunnerError> {
        if npm::requests_packages(admitted) {
            return self.npm(admitted, LockPolicy::Regenerate)?.lock(script, progress);
        }
        let Some(request) = PackageRequest::without_lock(admitted)?.filter(|request| !request.requirements.is_empty())
        else {
            let line = format!("{} requests no packages", script.display());
            let fix = match npm::is_npm_job(admitted.job()) {
                true => "pass them with --with",
                false => "list them in a block `# /// script`, with --with or with -r",
            };
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        };
        request.check(&self.settings.packages)?;
        let library = self.python(progress)?;
        let _guard = self.package_store.acquire_shared_lock().map_err(not_installed)?;
        let mut lock = Lock::new(&request.requirements);
        let wasm = target(&library, Vec::new());
        let lock = {
            let mut builder = SdistBuilder::for_any_image(self, admitted, &request, engines.to_vec(), progress)?;
            let found = match request.unsatisfied_python(wasm.python()) {
                Some(python) => Decision::Native(vec![python]),
                None => self.decide_tier_uncached(&request, &library, &mut builder).await?,
            };
            let found = self.build_sdists(found, &wasm, &mut builder).await?;
            let only_in_container = matches!(found, Decision::Native(_));
            match found {
                Decision::Pure(resolved) => {
                    request.check_hashes(&resolved)?;
                    lock.add(&wasm, resolved);
                }
                Decision::Native(names) => lock.add_native(&wasm, names),
            }
            let named = admitted.container_image();
            let (mut builder, mut container) = (builder, Target::default_container());
            for engine in engines.iter().copied() {
                if let Ok(build_image) = image::of(&self.package_store, engine, named.map(ImageName::as_str)).await {
                    container = build_image.target.clone();
                    builder = builder.at(engine, build_image, named);
                    break;
                }
            }
            let container_resolution = match request.check_python(&container) {
                Ok(()) => self.new_container_resolution(&request.requirements, &container, &mut builder).await,
                Err(failure) if only_in_container => return Err(failure),
                Err(failure) => Err(failure),
            };
            match container_resolution {
                Ok(resolved) => {
                    request.check_hashes(&resolved)?;
                    lock.add(&container, resolved);
                }
                Err(failure) => progress.note(&format!("cannot lock packages for containers: {}", failure.message())),
            }
            lock
        };
        let text = lock.to_text().map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let file = lock_path(script);
        request::write_lock(&file, &text)?;
        Ok(file)
    }

    /// Returns all stored packages.
    fn stored(&self) -> Vec<StoredPackage> {
        let python = self.package_store.entries().into_iter().map(|one| StoredPackage {
            name: one.file.split_once('-').map_or(one.file.as_str(), |(name, _)| name).to_owned(),
            file: one.file,
            content: format!("sha256-{}", one.sha256),
            size: one.size,
            targets: one.targets.into_iter().collect(),
            origin: one.origin.map(|(file, sha256)| (file, format!("sha256-{sha256}"))),
        });
        let npm = NpmStore::at(&self.dirs.npm).entries().into_iter().map(|one| StoredPackage {
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
        let on_wait = || progress.note("waiting for another run to install packages");
        let python =
            self.package_store.prune(&on_wait).map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let npm = NpmStore::at(&self.dirs.npm).prune(&on_wait);
        let npm = npm.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
        let both = [python, npm].into_iter();
        Ok(both.fold((0, 0), |(count, bytes), one| (count + one.environments + one.wheels, bytes + one.bytes)))
    }

    /// Downloads the wheels that are missing from the store. If a downloaded wheel differs from the chosen one, the
    /// error names the lock that chose it.
    fn download(&self, wheels: &[Wheel], lock: Option<&Path>, progress: &dyn Progress) -> Result<(), RunnerError> {
        let missing = self.package_store.missing(wheels);
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|wheel| format!("{} {}", wheel.name, wheel.version)).collect();
        progress.note(&format!("installing {}", names.join(", ")));
        self.with_index(async |index| {
            let downloaded = self.package_store.download(wheels, index, &codebox_core::Silent).await;
            downloaded.map_err(|error| mismatch_error(error, lock))
        })
    }

    fn guest_layers(
        &self,
        environment: Result<Environment, StoreError>,
        lock: Option<&Path>,
    ) -> Result<Vec<Layer>, RunnerError> {
        let environment = environment.map_err(|error| mismatch_error(error, lock))?;
        let layer = layer(&environment.modules, PYTHON_PACKAGES)?;
        self.keep_locked(EnvironmentLock::Python(environment));
        *self.resolution_lock() = None;
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
        let query = || {
            let settings = IndexSettings::from_user(&|name| self.variable(name), &ConfigFiles::User);
            let settings = settings.map_err(|error| RunnerError::of(ResultKind::InvalidRequest, &error))?;
            let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let executor = executor.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?;
            executor.block_on(async {
                let index = Index::open(&settings, &self.package_store.index_cache()).await;
                work(&index.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?).await
            })
        };
        let thread_failed = || RunnerError::new(ResultKind::InternalError, "the package index thread has exited");
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("codebox-index".to_owned()).stack_size(RESOLVER_STACK_SIZE);
            let thread = thread.spawn_scoped(scope, query).map_err(|_| thread_failed())?;
            thread.join().map_err(|_| thread_failed())?
        })
    }
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
fn package_notes(resolved: &Resolved) -> Vec<String> {
    let built_in = resolved.built_in.iter().map(|(name, version)| format!("{name} {version} is built in"));
    let mut files: Vec<String> = resolved.files().map(|file| format!("{} {}", file.name, file.version)).collect();
    files.sort();
    let files = (!files.is_empty()).then(|| format!("packages: {}", files.join(", ")));
    built_in.chain(files).collect()
}

/// Returns the target of packages for the WebAssembly runtime.
fn target(library: &RuntimeLibrary, built_in: Vec<BuiltIn>) -> Target {
    Target::Wasm { python: library.version.clone(), built_in }
}

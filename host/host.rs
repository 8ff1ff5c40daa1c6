//! The services that this process provides to the command line.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use codebox_analysis::{Analyzer, Budget};
use codebox_cli::{Confinement, EngineImage, Failure, Host, KeptPackage, Provided, Sweep, SweptPlaces};
use codebox_confine::{Network, Openat2, Place, Rules};
use codebox_container::{ContainerBackend, StartKeeper};
use codebox_core::path::{Protected, Reach};
use codebox_core::{
    Access, Backend, BackendError, BackendId, BoxFuture, HostPath, InstanceSpec, Isolation, Language, ResultKind, Wall,
    WallState,
};
use codebox_files::{FilesError, ProgramFile, Scratch};
use codebox_service::catalog::Catalog;
use codebox_service::catalog::Progress;
use codebox_service::config::{Settings, narrow};
use codebox_service::{Admitted, Check, Journal, PackageNeeds, Plan, Policy, Surroundings};
use codebox_wasm::{Store, WasmBackend};

use crate::catalog::Shelf;
use crate::places::{Places, PlacesError};
use crate::provisions::{Provisions, brought};
use crate::settings::{self, SettingsError};

/// The name of a project's configuration file, which is read from the working directory.
const PROJECT_FILE: &str = "codebox.toml";

/// The services of this process, each created on first use.
#[derive(Default)]
pub(crate) struct Process {
    surroundings: OwnSurroundings,
    shelf: OnceLock<Shelf>,
    wasm: OnceLock<WasmBackend>,
    scratch: OnceLock<Arc<Scratch>>,
    journal: OnceLock<Journal>,
    containers: OnceLock<Vec<ContainerBackend>>,
    provisions: OnceLock<Provisions>,
    waiter: OnceLock<ProgramFile>,
    /// The descriptor over which a confined process receives its connections, if its job has network grants.
    line: Arc<OnceLock<i32>>,
}

/// The environment and directories of this process, and the analyzer that parses source texts.
#[derive(Default)]
struct OwnSurroundings {
    process: codebox_service::Process,
    analyzer: OnceLock<Analyzer>,
}

impl OwnSurroundings {
    fn analyzer(&self) -> Result<&Analyzer, PlacesError> {
        if let Some(analyzer) = self.analyzer.get() {
            return Ok(analyzer);
        }
        let analyzer = Analyzer::below(&Places::from_env()?.programs());
        Ok(self.analyzer.get_or_init(|| analyzer))
    }
}

impl Surroundings for OwnSurroundings {
    fn env_var(&self, name: &str) -> Option<std::ffi::OsString> {
        self.process.env_var(name)
    }

    fn current_dir(&self) -> std::io::Result<PathBuf> {
        self.process.current_dir()
    }

    /// Returns true as well for a text that cannot be parsed within the analyzer's limits.
    fn is_python(&self, text: &str) -> bool {
        self.analyzer().map_or(true, |analyzer| analyzer.is_python(text, Budget::default()).unwrap_or(true))
    }
}

fn internal(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::of(ResultKind::InternalError, error)
}

impl Process {
    fn places(&self) -> Result<Places, Failure> {
        Places::from_env().map_err(|e| Failure::of(ResultKind::InvalidRequest, &e))
    }

    fn shelf(&self) -> Result<&Shelf, Failure> {
        if let Some(shelf) = self.shelf.get() {
            return Ok(shelf);
        }
        let shelf = Shelf::below(&self.places()?).map_err(|e| internal(&e))?;
        Ok(self.shelf.get_or_init(|| shelf))
    }

    pub(crate) fn wasm(&self) -> Result<&WasmBackend, Failure> {
        if let Some(wasm) = self.wasm.get() {
            return Ok(wasm);
        }
        let stores = self.shelf()?.stores().iter().cloned();
        // A process of the command line runs one job.
        let wasm = WasmBackend::new(stores, self.scratch()?.clone(), 0).reaching(self.ways()).alone_in_process();
        let wasm = wasm.analyzing(self.analyzer()?.clone());
        Ok(self.wasm.get_or_init(|| wasm))
    }

    #[cfg(target_os = "linux")]
    fn ways(&self) -> codebox_wasm::Ways {
        crate::network::brokered(Arc::clone(&self.line))
    }

    #[cfg(not(target_os = "linux"))]
    fn ways(&self) -> codebox_wasm::Ways {
        crate::network::direct()
    }

    /// Returns the private directory of this process, creating it on first use.
    fn scratch(&self) -> Result<&Arc<Scratch>, Failure> {
        if let Some(scratch) = self.scratch.get() {
            return Ok(scratch);
        }
        let scratch = Scratch::new(&self.places()?.scratch()).map_err(|FilesError::Io { doing, path, source }| {
            // A full disk is not an internal error of codebox.
            BackendError::io(format!("{doing} {}", path.display()), source)
        })?;
        Ok(self.scratch.get_or_init(|| Arc::new(scratch)))
    }

    /// Returns the backends of the container engines, the preferred one first. Engines are discovered on first use.
    pub(crate) fn containers(&self) -> Result<&[ContainerBackend], Failure> {
        if let Some(containers) = self.containers.get() {
            return Ok(containers);
        }
        let (places, settings) = (self.places()?, self.user_settings()?);
        let keeper: Option<StartKeeper> = Some(Arc::new(crate::keeper::start));
        let containers = crate::containers::backends(&places, &settings, self.scratch()?, keeper, self.analyzer()?);
        Ok(self.containers.get_or_init(|| containers))
    }

    fn provisions(&self) -> Result<&Provisions, Failure> {
        if let Some(provisions) = self.provisions.get() {
            return Ok(provisions);
        }
        let provisions = Provisions::new(&self.places()?, self.user_settings()?);
        Ok(self.provisions.get_or_init(|| provisions))
    }

    /// Returns the user's settings, narrowed by the project's settings.
    fn user_settings(&self) -> Result<Settings, Failure> {
        let user = settings(settings::read_user(&self.places()?.config_file()))?;
        let project = settings(settings::read_project(Path::new(PROJECT_FILE)))?;
        Ok(narrow(&user, &project, Path::new(PROJECT_FILE))?)
    }
}

/// Adds the result kind and the fix to the error of a configuration file.
fn settings(read: Result<Settings, SettingsError>) -> Result<Settings, Failure> {
    read.map_err(|error| match error {
        SettingsError::Bad(error) => Failure::from(error),
        error @ SettingsError::Unreadable { .. } => {
            let fix = "correct what it names, or move the file away";
            Failure::new(ResultKind::InvalidRequest, error.to_string()).with_fix(fix)
        }
    })
}

impl Host for Process {
    fn policy(&self) -> Result<Policy, Failure> {
        let places = self.places()?;
        let settings = self.user_settings()?;
        Ok(Policy { endings: self.shelf()?.endings(), ..settings.policy(protected(&places)) })
    }

    fn surroundings(&self) -> &dyn Surroundings {
        &self.surroundings
    }

    fn analyzer(&self) -> Result<&Analyzer, Failure> {
        self.surroundings.analyzer().map_err(|e| Failure::of(ResultKind::InvalidRequest, &e))
    }

    fn catalog(&self) -> Result<&dyn Catalog, Failure> {
        Ok(self.shelf()?)
    }

    fn journal(&self) -> Result<&Journal, Failure> {
        if let Some(journal) = self.journal.get() {
            return Ok(journal);
        }
        let journal = Journal::open(&self.places()?.jobs())?;
        Ok(self.journal.get_or_init(|| journal))
    }

    fn backends(&self, engine: Option<&str>) -> Result<Vec<&dyn Backend>, Failure> {
        let mut backends: Vec<&dyn Backend> = vec![self.wasm()?];
        let engines = self.containers()?.iter();
        let named = engines.filter(|backend| engine.is_none_or(|engine| backend.id().as_str() == engine));
        backends.extend(named.map(|backend| backend as &dyn Backend));
        Ok(backends)
    }

    fn load_ahead(&self, language: &Language) {
        if let Ok(wasm) = self.wasm() {
            wasm.load_ahead(language);
        }
    }

    fn may_have_engine(&self) -> bool {
        self.containers().is_ok_and(|engines| engines.iter().any(ContainerBackend::may_be_there))
    }

    fn waiter(&self) -> Option<std::process::Command> {
        // A program that cannot be verified is not run. The report then only states how to rerun the job in a
        // container.
        if self.waiter.get().is_none() {
            let waiter = codebox_container::agent_program(&self.places().ok()?.containers()).ok()?;
            let _ = self.waiter.set(waiter);
        }
        self.waiter.get().map(ProgramFile::command)
    }

    fn ensure_image<'a>(
        &'a self,
        backend: &'a BackendId,
        language: &'a Language,
        image: Option<&'a str>,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        Box::pin(async move {
            let Some(engine) = self.containers()?.iter().find(|engine| engine.id() == *backend) else { return Ok(()) };
            Ok(crate::containers::ensure_image(engine, language, image, progress).await?)
        })
    }

    fn engine_images(&self, engine: &str) -> Result<Vec<EngineImage>, Failure> {
        let engines = self.containers()?;
        crate::containers::block(async { crate::containers::images(engines, engine).await })?
    }

    fn pull_image(&self, engine: Option<&str>, name: &str, progress: &dyn Progress) -> Result<String, Failure> {
        let (engines, allowed) = (self.containers()?, self.user_settings()?.images.allowed);
        crate::containers::block(async {
            crate::containers::pull_named(engines, engine, name, allowed.as_deref(), progress).await
        })?
    }

    fn keep(&self, engine: &str, asked: &str) -> Result<(), Failure> {
        crate::keeper::keep(self.containers()?, engine, asked)
    }

    fn connect_for_others(&self) -> Result<(), Failure> {
        crate::network::serve()
    }

    fn end_keepers(&self) -> Result<(), Failure> {
        let Some(any) = self.containers()?.first() else { return Ok(()) };
        crate::containers::block(any.end_keepers())
    }

    fn sweep(&self, how: Sweep) -> Result<SweptPlaces, Failure> {
        let engines = self.containers()?;
        crate::containers::block(async { crate::containers::sweep(engines, how).await })
    }

    fn packages(
        &self,
        admitted: &Admitted,
        engine: Option<&str>,
        progress: &dyn Progress,
    ) -> Result<PackageNeeds, Failure> {
        let engines = self.containers()?.iter();
        let engines = engines.filter(|backend| engine.is_none_or(|engine| backend.id().as_str() == engine));
        self.provisions()?.needs(admitted, progress, self.shelf()?, engines.collect())
    }

    fn layers<'a>(
        &'a self,
        admitted: &'a Admitted,
        plan: &'a Plan,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<Provided, Failure>> {
        Box::pin(async move {
            // This is also needed for scripts without packages, because a script may require a Python version.
            let provisions = self.provisions()?;
            if plan.choice.isolation == Isolation::Wasm {
                return provisions.in_wasm(admitted, progress, self.shelf()?).await;
            }
            let backend = &plan.choice.backend;
            let engine = self.containers()?.iter().find(|engine| engine.id() == *backend);
            let lost = || Failure::new(ResultKind::InternalError, format!("there is no backend {backend}"));
            let brought = brought::by_runtime(self.shelf()?, &admitted.job().language, &plan.imports);
            provisions.in_container(admitted, &brought, progress, engine.ok_or_else(lost)?).await
        })
    }

    fn compile(&self, asked: &str) -> Result<(), Failure> {
        let wasm = self.wasm()?;
        let work = crate::provisions::compile::Work::read(asked)?;
        let spec = work.spec()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| internal(&error))?;
        let instance = runtime.block_on(wasm.open(&spec))?;
        // The guest reads untrusted modules, so the sandbox layers apply here as well.
        codebox_confine::confine(&self.rules_of(&spec)?).map_err(|e| internal(&e))?;
        runtime.block_on(work.done_in(instance))
    }

    fn lock(&self, admitted: &Admitted, script: &Path, progress: &dyn Progress) -> Result<PathBuf, Failure> {
        self.provisions()?.lock(admitted, script, progress, self.shelf()?, self.containers()?)
    }

    fn kept_packages(&self) -> Result<Vec<KeptPackage>, Failure> {
        Ok(self.provisions()?.kept())
    }

    fn prune_packages(&self, progress: &dyn Progress) -> Result<(usize, u64), Failure> {
        self.provisions()?.prune(progress)
    }

    fn confine(
        &self,
        admitted: &Admitted,
        spec: &InstanceSpec,
        confinement: Confinement,
    ) -> Result<Vec<Wall>, Failure> {
        if spec.isolation != Isolation::Wasm {
            return Ok(Vec::new());
        }
        let walls = match confinement {
            Confinement::Off => codebox_confine::Wall::all_off(),
            Confinement::On => {
                let rules = self.rules(admitted, spec)?;
                // A confined process cannot start processes, so the analyzer ends before.
                self.analyzer()?.close();
                codebox_confine::confine(&rules).map_err(|e| internal(&e))?
            }
        };
        Ok(walls.into_iter().map(wall).collect())
    }

    fn checks(&self) -> Vec<Check> {
        crate::doctor::checks(self)
    }
}

impl Process {
    /// Removes the directories that this process keeps on disk only while it runs.
    pub(crate) fn leave(&self) {
        if let Some(scratch) = self.scratch.get() {
            scratch.remove_all();
        }
    }

    /// Returns the rules for a job: its grants, its output directory, the runtime's directories and the job's private
    /// directories.
    fn rules(&self, admitted: &Admitted, spec: &InstanceSpec) -> Result<Rules, Failure> {
        let mut rules = self.rules_of(spec)?;
        rules.read_write.extend(admitted.out().map(|out| out.to_path_buf().into()));
        Ok(rules)
    }

    /// Returns the rules for a guest without an output directory.
    fn rules_of(&self, spec: &InstanceSpec) -> Result<Rules, Failure> {
        let wasm = self.wasm()?;
        let network = self.line.get().map_or(Network::Denied, |line| Network::Handed(*line));
        // Without `openat2`, every path takes as many calls as it has components, which is many times slower in deep
        // trees.
        let mut rules = Rules { network, openat2: Openat2::Allowed, ..Rules::default() };
        let store = wasm.store(&spec.language);
        rules.read.extend(store.into_iter().flat_map(Store::guest_dirs).map(Place::from));
        rules.read.extend(spec.layers.iter().map(|layer| Place::from(layer.host.clone())));
        rules.read_write.push(wasm.scratch_dir().to_owned().into());
        rules.retire.extend(wasm.scratch_dir().parent().map(|parent| parent.to_owned().into()));
        for grant in &spec.grants.dirs {
            let places = match grant.access {
                Access::ReadOnly => &mut rules.read,
                Access::ReadWrite => &mut rules.read_write,
            };
            places.push(grant.host.to_path_buf().into());
        }
        Ok(rules)
    }
}

fn wall(wall: codebox_confine::Wall) -> Wall {
    let codebox_confine::Wall { name, state, detail } = wall;
    let state = match state {
        codebox_confine::WallState::Held => WallState::Held,
        codebox_confine::WallState::Partial => WallState::Partial,
        codebox_confine::WallState::Off => WallState::Off,
        codebox_confine::WallState::Unavailable => WallState::Unavailable,
    };
    Wall { name: name.to_owned(), state, detail }
}

/// Returns codebox's own directories and the engines' sockets, which cannot be granted to guests.
pub(crate) fn protected(places: &Places) -> Vec<Protected> {
    [&places.data, &places.cache, &places.config]
        .into_iter()
        .filter_map(|path| HostPath::native(path).ok())
        .map(|path| Protected { path, what: "codebox's own files".into(), reach: Reach::Subtree })
        .chain(crate::containers::sockets())
        .collect()
}

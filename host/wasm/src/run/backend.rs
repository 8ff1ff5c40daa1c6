//! The backend that runs jobs in WebAssembly.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebox_analysis::Analyzer;
use codebox_core::{
    Adapter, Backend, BackendError, BackendId, BoxFuture, Capabilities, CodeScope, Diagnosis, EnforcementLevel,
    Finding, INITIAL_IMAGE, Instance, InstanceSpec, Isolation, Job, Language, LimitKind, NetRules, Preparation, Source,
    Support, Unavailable,
};
use codebox_egress::Secrets;
use codebox_files::Scratch;

use crate::code::CodeImage;
use crate::component::ComponentCode;
use crate::engine::Engine;
use crate::error::WasmError;
use crate::interrupt::CpuClock;
use crate::program::ProgramCode;
use crate::region::{Capacity, RegionPool, ResetChecks, ResetVerification};
use crate::run::connector::{Connector, Connectors};
use crate::run::exec::{GrantedNetwork, WasmInstance};
use crate::store::{ImageRecipe, RuntimeState, Store};

/// The name of this backend.
pub(crate) const ID: BackendId = BackendId::new("wasm");

/// Maximum time in which a program is compiled.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(60);

/// The engine's name in reports.
pub(crate) const ENGINE: &str = "wasmtime 48";

/// Backend that runs jobs in WebAssembly, each in the runtime of its language.
pub struct WasmBackend {
    runtimes: Vec<Runtime>,
    scratch: Arc<Scratch>,
    /// Loaded images, by names of runtime and image.
    images: Mutex<BTreeMap<(String, String), Arc<LoadedRuntime>>>,
    capacity: Capacity,
    verification: Arc<ResetVerification>,
    clock: CpuClock,
    connectors: Connectors,
    analyzer: Option<Analyzer>,
}

/// A language's runtime and its loaded code.
struct Runtime {
    language: Language,
    store: Store,
    /// Loaded code by the name of its last part, which is `None` if the code has no parts.
    code: Mutex<BTreeMap<Option<String>, CodeImage>>,
}

impl Runtime {
    /// Returns the code up to a part, loaded at the first call. It is loaded again if all code is needed, and some was not
    /// compiled at that time.
    fn code(&self, last: Option<&str>, scope: CodeScope) -> Result<CodeImage, WasmError> {
        let mut loaded = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.map(str::to_owned);
        if let Some(code) = loaded.get(&last).filter(|code| code.has(scope)) {
            return Ok(code.clone());
        }
        let code = self.store.load_code(last.as_deref())?;
        loaded.insert(last, code.clone());
        Ok(code)
    }
}

/// A loaded image or component, from which guests are started.
pub(crate) struct LoadedRuntime {
    pub name: String,
    /// The sha256 of the image, or `None` for a component.
    pub digest: Option<String>,
    pub guest_source: GuestSource,
}

/// The source of new guests.
pub(crate) enum GuestSource {
    /// The runtime's code and an image of its memory.
    Image { code: CodeImage, pool: Arc<RegionPool> },
    /// A component that the user added, which has no image.
    Component(ComponentCode),
    /// A program that is WebAssembly itself.
    Program(ProgramCode),
}

impl LoadedRuntime {
    /// Returns true if guests can use this code.
    fn has(&self, scope: CodeScope) -> bool {
        match &self.guest_source {
            GuestSource::Image { code, .. } => code.has(scope),
            GuestSource::Component(_) | GuestSource::Program(_) => true,
        }
    }

    fn pool(&self) -> Option<&RegionPool> {
        match &self.guest_source {
            GuestSource::Image { pool, .. } => Some(pool),
            GuestSource::Component(_) | GuestSource::Program(_) => None,
        }
    }
}

impl WasmBackend {
    /// Creates a backend over these stores, one per language, with its private directories in `scratch`.
    ///
    /// The backend keeps at most `idle_regions` memory regions of each image between jobs.
    pub fn new(
        stores: impl IntoIterator<Item = (Language, Store)>,
        scratch: Arc<Scratch>,
        idle_regions: usize,
    ) -> Self {
        #[cfg(target_os = "linux")]
        let _ = crate::sys::Pagemap::get();
        let runtime = |(language, store)| Runtime { language, store, code: Mutex::default() };
        let runtimes = stores.into_iter().map(runtime).collect();
        Self {
            runtimes,
            scratch,
            images: Mutex::default(),
            capacity: Capacity::Regions(idle_regions),
            verification: Arc::default(),
            clock: CpuClock::Thread,
            connectors: Arc::new(|_, _| Ok(Connector::default())),
            analyzer: None,
        }
    }

    /// Sets the function that selects the network access of jobs by their rules.
    #[must_use]
    pub fn with_connectors(self, connectors: Connectors) -> Self {
        Self { connectors, ..self }
    }

    /// Declares that the process runs one job at a time and does no other work meanwhile.
    ///
    /// All processor time of the process then counts as the job's, including that of threads that work on its files.
    #[must_use]
    pub fn with_dedicated_process(self) -> Self {
        Self { clock: CpuClock::for_process(), capacity: Capacity::UntilExit, ..self }
    }

    /// Enables or disables the comparison of every memory region with its image after a reset, byte by byte. For tests.
    #[doc(hidden)]
    pub fn verify_resets(&self, verify: bool) {
        self.verification.set(verify);
    }

    /// Returns the numbers of resets that were verified so far and of those that failed.
    #[doc(hidden)]
    pub fn reset_checks(&self) -> ResetChecks {
        self.verification.checks()
    }

    /// Sets the analyzer that strips the types from the jobs' TypeScript. Without an analyzer, jobs cannot load
    /// TypeScript.
    #[must_use]
    pub fn with_analyzer(self, analyzer: Analyzer) -> Self {
        Self { analyzer: Some(analyzer), ..self }
    }

    /// Maps the memory of a language's first image for a job that is not known yet, if the runtime is ready. A failure is
    /// reported by the job.
    pub fn map_ahead(&self, language: &Language) {
        let Some(runtime) = self.runtime(language) else { return };
        let Some(image) = runtime.store.spec().image.first() else { return };
        if runtime.store.state(Preparation::Image(&image.name)) == RuntimeState::Ready
            && let Ok(loaded) = self.load(runtime, &image.name, CodeScope::Image)
            && let Some(pool) = loaded.pool()
        {
            let _ = pool.map_ahead();
        }
    }

    /// Unmaps memory that was mapped ahead and that a session will not use, whose process may live long.
    #[cfg(target_os = "linux")]
    pub fn unmap_unused(&self, spec: &InstanceSpec) {
        // The memory of a saved state is newly mapped.
        let is_restored = spec.session.as_ref().is_some_and(|session| session.restore.is_some());
        for loaded in self.images().values() {
            let is_used = !is_restored && spec.image.as_deref().is_some_and(|image| image == loaded.name);
            if let Some(pool) = loaded.pool()
                && !is_used
            {
                pool.unmap_idle();
            }
        }
    }

    /// Returns the directory that contains all files that this backend writes while jobs run.
    pub fn scratch_dir(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns the store from which a language runs. TypeScript uses the store of JavaScript.
    pub fn store(&self, language: &Language) -> Option<&Store> {
        Some(&self.runtime(language)?.store)
    }

    fn runtime(&self, language: &Language) -> Option<&Runtime> {
        self.runtimes.iter().find(|runtime| runtime.language == *language.runtime_language())
    }

    /// Returns every language that a runtime of this backend supports.
    fn languages(&self) -> Vec<Language> {
        let own = self.runtimes.iter().map(|runtime| runtime.language.clone());
        let others = Language::built_in().into_iter().filter(|language| *language.runtime_language() != *language);
        let own = own.chain(others.filter(|language| self.runtime(language).is_some()));
        own.chain(std::iter::once(Language::webassembly())).collect()
    }

    /// Compiles the program of an instance.
    fn compile(&self, spec: &InstanceSpec) -> Result<Arc<LoadedRuntime>, WasmError> {
        let engine = match self.runtimes.first() {
            Some(runtime) => runtime.store.engine.clone(),
            None => Engine::new()?,
        };
        let limit = spec.limits.wall.at().unwrap_or(COMPILE_TIMEOUT).min(COMPILE_TIMEOUT);
        let program = ProgramCode::compile(&engine, spec.program.as_deref().unwrap_or_default(), limit)?;
        let name = spec.language.as_str().to_owned();
        Ok(Arc::new(LoadedRuntime { name, digest: None, guest_source: GuestSource::Program(program) }))
    }

    /// Returns the languages whose runtime is a component without connections.
    fn offline(&self) -> Vec<Language> {
        let is_offline =
            |runtime: &&Runtime| runtime.store.spec().component.as_ref().is_some_and(|component| !component.network);
        let components = self.runtimes.iter().filter(is_offline);
        let offline = components.map(|runtime| runtime.language.clone());
        offline.chain(std::iter::once(Language::webassembly())).collect()
    }

    /// Returns the backend's capabilities. A runtime that is missing is installed on first use, and a damaged one is
    /// reported then.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            languages: self.languages(),
            forbidden: BTreeMap::new(),
            limits: limit_enforcement(self.clock),
            snapshot: Support::No,
            fork: Support::No,
            network_filter: Support::Yes,
            offline: self.offline(),
            fuel: Support::No,
            engine: Some(ENGINE.to_owned()),
        }
    }

    /// Returns the numbers of regions of an image that were newly mapped and that were reused, for tests and
    /// benchmarks.
    pub fn region_counts(&self, image: &str) -> Option<(u64, u64)> {
        let images = self.images();
        let loaded = images.iter().find(|((_, name), _)| name == image);
        Some(loaded?.1.pool()?.counts())
    }

    /// Returns true if every region that is kept for reuse equals its image, byte by byte. For tests.
    pub fn idle_regions_are_clean(&self) -> bool {
        self.images().values().filter_map(|loaded| loaded.pool()).all(RegionPool::idle_regions_equal_image)
    }

    fn load(&self, runtime: &Runtime, image: &str, scope: CodeScope) -> Result<Arc<LoadedRuntime>, WasmError> {
        // Code that was incomplete when it was loaded is loaded again once all of it is compiled.
        let scope = if runtime.store.is_known_complete() { CodeScope::All } else { scope };
        let mut images = self.images();
        let key = (runtime.store.spec().name.clone(), image.to_owned());
        if let Some(loaded) = images.get(&key).filter(|loaded| loaded.has(scope)) {
            return Ok(loaded.clone());
        }
        if runtime.store.spec().component.is_some() {
            let guest_source = GuestSource::Component(runtime.store.load_component()?);
            let loaded = Arc::new(LoadedRuntime { name: image.to_owned(), digest: None, guest_source });
            images.insert(key, loaded.clone());
            return Ok(loaded);
        }
        let (memory, seal) = runtime.store.load_image(image)?;
        let code = runtime.code(memory.facts().code.as_deref(), scope)?;
        let pool = RegionPool::new(Arc::new(memory), self.capacity, Arc::clone(&self.verification));
        let guest_source = GuestSource::Image { code, pool };
        let loaded = Arc::new(LoadedRuntime { name: image.to_owned(), digest: Some(seal.sha256), guest_source });
        images.insert(key, loaded.clone());
        Ok(loaded)
    }

    fn images(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Arc<LoadedRuntime>>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if a text contains a name.
fn contains(text: &[u8], name: &str) -> bool {
    memchr::memmem::find(text, name.as_bytes()).is_some()
}

/// Returns the enforcement level of each limit.
pub(crate) fn limit_enforcement(clock: CpuClock) -> BTreeMap<LimitKind, EnforcementLevel> {
    LimitKind::ALL
        .into_iter()
        .map(|kind| {
            let limit_enforcement = match kind {
                // A guest cannot have processes.
                LimitKind::Wall
                | LimitKind::Memory
                | LimitKind::Output
                | LimitKind::Disk
                | LimitKind::Files
                | LimitKind::OpenFiles
                | LimitKind::Processes
                | LimitKind::NetBytes
                | LimitKind::NetConnections => EnforcementLevel::Enforced,
                LimitKind::Cpu => clock.limit_enforcement(),
                LimitKind::Fuel => EnforcementLevel::Unsupported,
            };
            (kind, limit_enforcement)
        })
        .collect()
}

impl Backend for WasmBackend {
    fn id(&self) -> BackendId {
        ID
    }

    fn isolation(&self) -> Isolation {
        Isolation::Wasm
    }

    /// Loads the code of the image that the program probably starts from, if the runtime is ready.
    fn preload(&self, job: &Job) {
        let Some(runtime) = self.runtime(&job.language) else { return };
        let text = match &job.source {
            Source::Inline(text) | Source::Stdin(text) => text.as_bytes(),
            Source::File { text, .. } => text,
            _ => &[],
        };
        let spec = runtime.store.spec();
        let is_named =
            |recipe: &&ImageRecipe| recipe.base.is_some() && recipe.imports.iter().any(|name| contains(text, name));
        if let Some(image) = spec.image.iter().rev().find(is_named).or(spec.image.first())
            && runtime.store.state(Preparation::Image(&image.name)) == RuntimeState::Ready
        {
            // A failure is reported when the guest is opened.
            let _ = runtime.code(image.code.as_deref(), CodeScope::Image);
        }
    }

    #[cfg(target_os = "linux")]
    fn export_checkpoint(&self, language: &Language, image: &str, from: &Path, to: &Path) -> Result<(), BackendError> {
        let runtime = self.runtime(language).ok_or_else(|| no_runtime(language))?;
        let exported = (|| {
            let load = |name: &str| self.load(runtime, name, CodeScope::Image);
            crate::run::session::export(&runtime.store, &*load(image)?, &*load(INITIAL_IMAGE)?, from, to)
        })();
        exported.map_err(|error| backend_error(&runtime.store.spec().name, error))
    }

    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        let finding = if crate::supports_in_place_reset() {
            Finding { detail: "memory is reset in place".to_owned(), fix: None }
        } else {
            Finding {
                detail: "memory is remapped for every job".to_owned(),
                fix: Some("use Linux 6.7 or later for faster warm starts".to_owned()),
            }
        };
        let diagnosis = Diagnosis { subject: "warm starts".to_owned(), findings: vec![finding] };
        Box::pin(std::future::ready(diagnosis))
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        let capabilities = self.capabilities();
        Box::pin(std::future::ready(Ok(capabilities)))
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        let opened = (|| {
            if spec.limits.fuel.at().is_some() {
                return Err(BackendError::Limit { backend: ID, limit: LimitKind::Fuel });
            }
            let failed = |e| backend_error(spec.language.runtime_language().as_str(), e);
            let has_cells = matches!(spec.language.adapter(), Some(Adapter::Python | Adapter::Node));
            if spec.session.is_some() && !has_cells {
                return Err(BackendError::Input {
                    subject: "language".to_owned(),
                    detail: format!("the runtime of {} does not support sessions", spec.language.runtime_language()),
                    source: None,
                });
            }
            let (store, loaded) = match spec.language.spec().is_module {
                true => (None, self.compile(spec).map_err(failed)?),
                false => {
                    let runtime = self.runtime(&spec.language).ok_or_else(|| no_runtime(&spec.language))?;
                    let described = runtime.store.spec();
                    let first = described.image.first().map_or(described.name.as_str(), |recipe| recipe.name.as_str());
                    let image = spec.image.as_deref().unwrap_or(first);
                    (Some(runtime.store.clone()), self.load(runtime, image, spec.code).map_err(failed)?)
                }
            };
            let scratch = self.scratch.instance().map_err(|e| failed(e.into()))?;
            let network = match spec.grants.net.as_slice() {
                [] => None,
                granted => {
                    let rules = NetRules(granted.to_vec());
                    let connector = (self.connectors)(&rules, &spec.limits)
                        .map_err(|e| BackendError::io("reach the network", e))?;
                    Some(GrantedNetwork { rules, connector, secrets: Secrets::new(&spec.grants.secrets) })
                }
            };
            let instance =
                WasmInstance::new(store, loaded, scratch, spec.clone(), network, self.clock, self.analyzer.clone());
            Ok(Box::new(instance.map_err(failed)?) as Box<dyn Instance>)
        })();
        Box::pin(std::future::ready(opened))
    }
}

fn no_runtime(language: &Language) -> BackendError {
    BackendError::Input { subject: "language".to_owned(), detail: format!("no runtime for {language}"), source: None }
}

/// Converts a failure of this backend to the error type that all backends share.
pub(crate) fn backend_error(runtime: &str, error: WasmError) -> BackendError {
    match error {
        WasmError::Io { doing, path, source } => {
            BackendError::Io { action: format!("{doing} {}", path.display()), source }
        }
        WasmError::Damaged { .. } | WasmError::Module { .. } | WasmError::Patch { .. } => {
            BackendError::RuntimeCorrupt { runtime: runtime.to_owned(), detail: error.to_string(), source: None }
        }
        WasmError::Input { subject, detail } => BackendError::Input { subject, detail, source: None },
        WasmError::MemoryLimit { needed } => BackendError::LimitTooLow { limit: LimitKind::Memory, needed },
        WasmError::Memory { doing, bytes, source } => {
            BackendError::Io { action: format!("{doing} {bytes} bytes of memory"), source }
        }
        WasmError::Engine { doing, source } => {
            BackendError::Engine { action: doing.to_owned(), source: format!("{source:#}").into() }
        }
        WasmError::GuestLost => BackendError::EngineLost {
            backend: ID,
            action: "save the session".to_owned(),
            source: error.to_string().into(),
        },
        WasmError::Prelude(_) | WasmError::NotCompiled => {
            BackendError::Engine { action: "start the interpreter".to_owned(), source: error.to_string().into() }
        }
    }
}

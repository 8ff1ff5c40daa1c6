//! The fast path as codebox's other parts see it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Capabilities, Held, Instance, InstanceSpec, Isolation, Language,
    LimitKind, NetRules, Support, Unavailable,
};
use codebox_files::Scratch;

use crate::code::CodeImage;
use crate::component::ComponentCode;
use crate::error::WasmError;
use crate::interrupt::CpuClock;
use crate::region::{RegionPool, ResetChecks, ResetVerification};
use crate::run::exec::WasmInstance;
use crate::run::way::{Way, Ways};
use crate::store::{RuntimeState, Store};

/// The name of this backend.
pub(crate) const ID: BackendId = BackendId::new("wasm");

/// The engine as reports name it.
pub(crate) const ENGINE: &str = "wasmtime 48";

/// Runs jobs in WebAssembly, each in the runtime of its language.
pub struct WasmBackend {
    runtimes: Vec<Runtime>,
    scratch: Arc<Scratch>,
    /// By runtime and image.
    images: Mutex<BTreeMap<(String, String), Arc<Loaded>>>,
    idle_regions: usize,
    verification: Arc<ResetVerification>,
    clock: CpuClock,
    ways: Ways,
    analyzer: Option<Analyzer>,
}

/// A language's runtime and, once a guest was started from it, its code.
struct Runtime {
    language: Language,
    store: Store,
    code: OnceLock<CodeImage>,
}

/// What guests are started from.
pub(crate) struct Loaded {
    pub name: String,
    /// The sha256 of the image, where there is one.
    pub digest: Option<String>,
    pub start: Start,
}

/// How guests are started.
pub(crate) enum Start {
    /// From an image of their memory.
    Image { code: CodeImage, pool: Arc<RegionPool> },
    /// From nothing, as a component that the user brought.
    Component(ComponentCode),
}

impl Loaded {
    fn pool(&self) -> Option<&RegionPool> {
        match &self.start {
            Start::Image { pool, .. } => Some(pool),
            Start::Component(_) => None,
        }
    }
}

impl WasmBackend {
    /// A backend over these stores, one a language, with its private directories in `scratch`.
    ///
    /// It keeps at most `idle_regions` memory regions of each image between jobs.
    pub fn new(
        stores: impl IntoIterator<Item = (Language, Store)>,
        scratch: Arc<Scratch>,
        idle_regions: usize,
    ) -> Self {
        #[cfg(target_os = "linux")]
        let _ = crate::sys::Pagemap::get();
        let runtime = |(language, store)| Runtime { language, store, code: OnceLock::new() };
        let runtimes = stores.into_iter().map(runtime).collect();
        Self {
            runtimes,
            scratch,
            images: Mutex::default(),
            idle_regions,
            verification: Arc::default(),
            clock: CpuClock::Thread,
            ways: Arc::new(|_, _| Ok(Way::default())),
            analyzer: None,
        }
    }

    /// The same, whose jobs reach the network in the way that `ways` gives for their rules.
    #[must_use]
    pub fn reaching(self, ways: Ways) -> Self {
        Self { ways, ..self }
    }

    /// The same, in a process that runs one job at a time and nothing else meanwhile.
    ///
    /// All processor time of the process is then the job's, that of threads which work on its files included.
    #[must_use]
    pub fn alone_in_process(self) -> Self {
        Self { clock: CpuClock::of_process(), ..self }
    }

    /// Sets whether every memory region is compared with its image after it was reset, byte by byte; for tests.
    #[doc(hidden)]
    pub fn verify_resets(&self, verify: bool) {
        self.verification.set(verify);
    }

    /// How many resets were verified so far, and how many of them failed.
    #[doc(hidden)]
    pub fn reset_checks(&self) -> ResetChecks {
        self.verification.checks()
    }

    /// The same, whose jobs have the types taken out of TypeScript by `analyzer`; without one they load none.
    #[must_use]
    pub fn analyzing(self, analyzer: Analyzer) -> Self {
        Self { analyzer: Some(analyzer), ..self }
    }

    /// The directory that holds everything this backend writes while jobs run.
    pub fn scratch_dir(&self) -> &Path {
        self.scratch.path()
    }

    /// The store that a language runs from: TypeScript's is JavaScript's.
    pub fn store(&self, language: &Language) -> Option<&Store> {
        Some(&self.runtime(language)?.store)
    }

    fn runtime(&self, language: &Language) -> Option<&Runtime> {
        self.runtimes.iter().find(|runtime| runtime.language == *language.run_as())
    }

    /// Every language that a runtime here runs.
    fn languages(&self) -> Vec<Language> {
        let own = self.runtimes.iter().map(|runtime| runtime.language.clone());
        let stripped = [Language::TypeScript].into_iter().filter(|language| self.runtime(language).is_some());
        own.chain(stripped).collect()
    }

    /// The languages whose runtime is a component: those have no network.
    fn offline(&self) -> Vec<Language> {
        let components = self.runtimes.iter().filter(|runtime| runtime.store.spec().component.is_some());
        components.map(|runtime| runtime.language.clone()).collect()
    }

    /// What this backend can do. What is not installed yet is installed on first use, and what is damaged is told of then.
    pub fn capabilities(&self) -> Capabilities {
        Capabilities {
            languages: self.languages(),
            forbidden: BTreeMap::new(),
            isolation: Isolation::Wasm,
            limits: held(self.clock),
            snapshot: Support::No,
            fork: Support::No,
            network_filter: Support::Yes,
            offline: self.offline(),
            fuel: Support::No,
            engine: Some(ENGINE.to_owned()),
        }
    }

    /// Loads the code of a language's runtime, where it is ready, before it is known from which image a guest starts.
    ///
    /// A failure is left to the guest's start, which meets and reports it again.
    pub fn load_ahead(&self, language: &Language) {
        let Some(runtime) = self.runtime(language).filter(|runtime| runtime.code.get().is_none()) else { return };
        let is_ready = runtime.store.spec().component.is_none() && runtime.store.state() == RuntimeState::Ready;
        if is_ready && let Ok(code) = runtime.store.load_code() {
            let _ = runtime.code.set(code);
        }
    }

    /// How many regions of an image were mapped afresh and how many were used again, for tests and benchmarks.
    pub fn region_counts(&self, image: &str) -> Option<(u64, u64)> {
        let images = self.images();
        let loaded = images.iter().find(|((_, name), _)| name == image);
        Some(loaded?.1.pool()?.counts())
    }

    /// Whether every region that is kept for reuse equals its image, byte by byte; for tests.
    pub fn idle_regions_are_clean(&self) -> bool {
        self.images().values().filter_map(|loaded| loaded.pool()).all(RegionPool::idle_regions_equal_image)
    }

    fn load(&self, runtime: &Runtime, image: &str) -> Result<Arc<Loaded>, WasmError> {
        let mut images = self.images();
        let key = (runtime.store.spec().name.clone(), image.to_owned());
        if let Some(loaded) = images.get(&key) {
            return Ok(loaded.clone());
        }
        if runtime.store.spec().component.is_some() {
            let start = Start::Component(runtime.store.load_component()?);
            let loaded = Arc::new(Loaded { name: image.to_owned(), digest: None, start });
            images.insert(key, loaded.clone());
            return Ok(loaded);
        }
        let (code, memory, seal) = match runtime.code.get() {
            Some(code) => {
                let (memory, seal) = runtime.store.load_one_image(image)?;
                (code.clone(), memory, seal)
            }
            None => {
                let (code, memory, seal) = runtime.store.load(image)?;
                (runtime.code.get_or_init(|| code).clone(), memory, seal)
            }
        };
        let pool = RegionPool::new(Arc::new(memory), self.idle_regions, Arc::clone(&self.verification));
        let start = Start::Image { code, pool };
        let loaded = Arc::new(Loaded { name: image.to_owned(), digest: Some(seal.sha256), start });
        images.insert(key, loaded.clone());
        Ok(loaded)
    }

    fn images(&self) -> std::sync::MutexGuard<'_, BTreeMap<(String, String), Arc<Loaded>>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How well each limit is held; what is missing is not.
pub(crate) fn held(clock: CpuClock) -> BTreeMap<LimitKind, Held> {
    LimitKind::ALL
        .into_iter()
        .map(|kind| {
            let held = match kind {
                // A guest has no processes at all.
                LimitKind::Wall
                | LimitKind::Memory
                | LimitKind::Output
                | LimitKind::Disk
                | LimitKind::Files
                | LimitKind::OpenFiles
                | LimitKind::Processes
                | LimitKind::NetBytes
                | LimitKind::NetConnections => Held::Enforced,
                LimitKind::Cpu => clock.held(),
                LimitKind::Fuel => Held::Unsupported,
            };
            (kind, held)
        })
        .collect()
}

impl Backend for WasmBackend {
    fn id(&self) -> BackendId {
        ID
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
            let runtime = self.runtime(&spec.language).ok_or_else(|| BackendError::Input {
                subject: "language".to_owned(),
                detail: format!("{} has no runtime here", spec.language),
                source: None,
            })?;
            let described = runtime.store.spec();
            let failed = |e| backend_error(&described.name, e);
            let first = described.image.first().map_or(described.name.as_str(), |recipe| recipe.name.as_str());
            let image = spec.image.as_deref().unwrap_or(first);
            let loaded = self.load(runtime, image).map_err(failed)?;
            let scratch = self.scratch.instance().map_err(|e| failed(e.into()))?;
            let network = match spec.grants.net.as_slice() {
                [] => None,
                granted => {
                    let rules = NetRules(granted.to_vec());
                    let way =
                        (self.ways)(&rules, &spec.limits).map_err(|e| BackendError::io("reach the network", e))?;
                    Some((rules, way))
                }
            };
            let shared = (self.clock, self.analyzer.clone());
            let instance = WasmInstance::new(runtime.store.clone(), loaded, scratch, spec.clone(), network, shared);
            Ok(Box::new(instance.map_err(failed)?) as Box<dyn Instance>)
        })();
        Box::pin(std::future::ready(opened))
    }
}

/// A failure of this backend in the words that all backends share.
pub(crate) fn backend_error(runtime: &str, error: WasmError) -> BackendError {
    match error {
        WasmError::Io { doing, path, source } => {
            BackendError::Io { action: format!("{doing} {}", path.display()), source }
        }
        WasmError::Damaged { .. } | WasmError::Module { .. } | WasmError::Patch { .. } => {
            BackendError::RuntimeCorrupt { runtime: runtime.to_owned(), detail: error.to_string(), source: None }
        }
        WasmError::Limit(detail) => BackendError::Input { subject: "limits".to_owned(), detail, source: None },
        WasmError::Memory { doing, bytes, source } => {
            BackendError::Io { action: format!("{doing} {bytes} bytes of memory"), source }
        }
        WasmError::Engine { doing, source } => {
            BackendError::Engine { action: doing.to_owned(), source: format!("{source:#}").into() }
        }
        WasmError::Prelude(_) => {
            BackendError::Engine { action: "start the interpreter".to_owned(), source: error.to_string().into() }
        }
    }
}

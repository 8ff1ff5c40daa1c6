//! Composition of a runner from the backends, the runtimes and the packages of this machine.

#[cfg(feature = "cli")]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use codebox_analysis::Analyzer;
#[cfg(feature = "containers")]
use codebox_core::Backend;
use codebox_core::path::{ProtectedDir, ProtectionScope};
use codebox_core::{BackendError, HostPath, Languages, ResultKind, RunnerError};
use codebox_files::{FilesError, Scratch};
use codebox_runner::{Builder, get_or_create};
use codebox_runtimes::RuntimeCatalog;
use codebox_service::catalog::Catalog;
use codebox_service::config::{Settings, read_user};
#[cfg(feature = "cli")]
use codebox_service::config::{narrow, read_project};
use codebox_service::{EnvLookup, Policy};
use codebox_wasm::{StoreDirs, WasmBackend};

use crate::network;
use crate::places::{Places, PlacesError};

/// Name of a project's configuration file, which is read from the working directory.
#[cfg(feature = "cli")]
const PROJECT_FILE: &str = "codebox.toml";

/// Number of idle memory regions of each image that a process keeps between jobs.
const IDLE_REGIONS: usize = 16;

/// Use of the parts by the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// The process runs many jobs, with the settings of its user.
    Library,
    /// The process runs one command of the command line, with the settings of its user and of the project.
    #[cfg(feature = "cli")]
    CommandLine,
}

/// Parts of this machine, each created on first use.
pub(crate) struct Machine {
    usage: Use,
    find_places: Box<dyn Fn() -> Result<Places, PlacesError> + Send + Sync>,
    places: OnceLock<Places>,
    settings: OnceLock<Settings>,
    catalog: OnceLock<Arc<RuntimeCatalog>>,
    analyzer: OnceLock<Analyzer>,
    wasm: OnceLock<Arc<WasmBackend>>,
    scratch: OnceLock<Arc<Scratch>>,
    /// The descriptor over which a confined process receives its connections, if its job has network grants.
    #[cfg(feature = "cli")]
    pub line: Arc<OnceLock<i32>>,
}

impl Machine {
    /// Creates the parts of the machine, whose directories are determined on first use.
    pub(crate) fn new(
        usage: Use,
        find_places: impl Fn() -> Result<Places, PlacesError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            usage,
            find_places: Box::new(find_places),
            places: OnceLock::new(),
            settings: OnceLock::new(),
            catalog: OnceLock::new(),
            analyzer: OnceLock::new(),
            wasm: OnceLock::new(),
            scratch: OnceLock::new(),
            #[cfg(feature = "cli")]
            line: Arc::default(),
        })
    }

    pub(crate) fn places(&self) -> Result<&Places, RunnerError> {
        get_or_create(&self.places, || Ok((self.find_places)()?))
    }

    fn settings(&self) -> Result<&Settings, RunnerError> {
        get_or_create(&self.settings, || self.read_settings())
    }

    fn catalog(&self) -> Result<&Arc<RuntimeCatalog>, RunnerError> {
        get_or_create(&self.catalog, || self.open_catalog())
    }

    pub(crate) fn analyzer(&self) -> Result<&Analyzer, RunnerError> {
        get_or_create(&self.analyzer, || Ok(Analyzer::below(&self.places()?.programs())))
    }

    pub(crate) fn wasm(&self) -> Result<&Arc<WasmBackend>, RunnerError> {
        get_or_create(&self.wasm, || self.create_wasm())
    }

    fn scratch(&self) -> Result<&Arc<Scratch>, RunnerError> {
        get_or_create(&self.scratch, || self.create_scratch())
    }

    /// Removes the directories that this process keeps on disk only while it runs.
    #[cfg(feature = "cli")]
    pub(crate) fn remove_scratch(&self) {
        if let Some(scratch) = self.scratch.get() {
            scratch.remove_all();
        }
    }

    /// Reads the user's settings, narrowed by the project's settings on the command line.
    fn read_settings(&self) -> Result<Settings, RunnerError> {
        let user = read_user(&self.places()?.config_file())?;
        match self.usage {
            Use::Library => Ok(user),
            #[cfg(feature = "cli")]
            Use::CommandLine => Ok(narrow(&user, &read_project(Path::new(PROJECT_FILE))?, Path::new(PROJECT_FILE))?),
        }
    }

    fn open_catalog(&self) -> Result<Arc<RuntimeCatalog>, RunnerError> {
        let places = self.places()?;
        let dirs = StoreDirs { data: places.data.clone(), cache: places.cache.clone() };
        let catalog = RuntimeCatalog::open(dirs, env_lookup());
        Ok(Arc::new(catalog.map_err(|error| RunnerError::of(ResultKind::InternalError, &error))?))
    }

    fn create_wasm(&self) -> Result<Arc<WasmBackend>, RunnerError> {
        let stores = self.catalog()?.stores().iter().cloned();
        let scratch = Arc::clone(self.scratch()?);
        let wasm = match self.usage {
            Use::Library => WasmBackend::new(stores, scratch, IDLE_REGIONS).with_connectors(network::direct()),
            // A process of the command line runs one job.
            #[cfg(feature = "cli")]
            Use::CommandLine => WasmBackend::new(stores, scratch, 0)
                .with_connectors(network::of_command_line(&self.line))
                .with_dedicated_process(),
        };
        Ok(Arc::new(wasm.with_analyzer(self.analyzer()?.clone())))
    }

    /// Creates the private directory of this process.
    fn create_scratch(&self) -> Result<Arc<Scratch>, RunnerError> {
        let scratch = Scratch::new(&self.places()?.scratch()).map_err(|FilesError::Io { doing, path, source }| {
            // A full disk is not an internal error of codebox.
            BackendError::io(format!("{doing} {}", path.display()), source)
        })?;
        Ok(Arc::new(scratch))
    }

    /// Returns all languages, for which the settings have been checked.
    fn languages(&self) -> Result<Languages, RunnerError> {
        let languages = self.catalog()?.languages();
        self.settings()?.images.check(&languages)?;
        Ok(languages)
    }

    fn policy(&self) -> Result<Policy, RunnerError> {
        let policy = self.settings()?.policy(protected(self.places()?));
        Ok(Policy { languages: self.languages()?, ..policy })
    }

    /// Returns a builder with all parts of this machine.
    pub(crate) fn builder(self: &Arc<Self>) -> Builder {
        let of = || Arc::clone(self);
        let (analyzer, catalog, policy, wasm) = (of(), of(), of(), of());
        let builder = Builder::new(
            move || Ok(analyzer.analyzer()?.clone()),
            move || Ok(Arc::clone(catalog.catalog()?) as Arc<dyn Catalog>),
        );
        let builder = builder.policy(move || policy.policy()).backend(move || Ok(Arc::clone(wasm.wasm()?) as _));
        #[cfg(feature = "containers")]
        let builder = {
            let engines = of();
            builder.backends(move || engines.engines())
        };
        #[cfg(feature = "packages")]
        let builder = {
            let packages = of();
            builder.packages(move || packages.packages())
        };
        builder
    }

    /// Returns the backends of the container engines, the preferred one first. Connects to none.
    #[cfg(feature = "containers")]
    pub(crate) fn engines(&self) -> Result<Vec<Arc<dyn Backend>>, RunnerError> {
        let pool_daemon = match self.usage {
            Use::Library => None,
            #[cfg(feature = "cli")]
            Use::CommandLine => Some(Arc::new(crate::processes::start_pool_daemon) as _),
        };
        let (places, settings) = (self.places()?, self.settings()?);
        let backends = crate::containers::backends(
            places,
            (settings, &self.languages()?),
            self.scratch()?,
            pool_daemon,
            self.analyzer()?,
        );
        let backends = backends.into_iter().map(|backend| Arc::new(backend) as Arc<dyn Backend>).collect();
        Ok(match self.usage {
            Use::Library => codebox_runner::Detached::all(backends, Arc::clone(self.scratch()?)),
            #[cfg(feature = "cli")]
            Use::CommandLine => backends,
        })
    }

    /// Returns the provider of packages.
    #[cfg(feature = "packages")]
    fn packages(self: &Arc<Self>) -> Result<Arc<dyn codebox_service::PackageProvider>, RunnerError> {
        use codebox_packages::{Compiler, JobPackages, PackageDirs};

        let places = self.places()?;
        let home = directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned());
        let dirs = PackageDirs { python: places.cache.join("packages"), npm: places.npm(), home };
        let compiler: Compiler = match self.usage {
            Use::Library => {
                let wasm = Arc::clone(self.wasm()?);
                Box::new(move |work| work.run_on(&*wasm).is_ok())
            }
            #[cfg(feature = "cli")]
            Use::CommandLine => Box::new(|work| crate::processes::compile_elsewhere(work).unwrap_or(false)),
        };
        let catalog = Arc::clone(self.catalog()?) as Arc<dyn Catalog>;
        Ok(Arc::new(JobPackages::new(dirs, self.settings()?.clone(), catalog, env_lookup(), compiler)))
    }
}

fn env_lookup() -> EnvLookup {
    Arc::new(|name: &str| std::env::var(name).ok())
}

/// Returns codebox's own directories and the engines' sockets, which cannot be granted to guests.
fn protected(places: &Places) -> Vec<ProtectedDir> {
    let own = [&places.data, &places.cache, &places.config];
    let own = own.into_iter().filter_map(|path| HostPath::native(path).ok());
    let own =
        own.map(|path| ProtectedDir { path, what: "codebox's own files".into(), scope: ProtectionScope::Subtree });
    #[cfg(feature = "containers")]
    let own = own.chain(crate::containers::sockets());
    own.collect()
}

//! Composition of a runner from the backends, the runtimes and the packages of this machine.

#[cfg(feature = "cli")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use codebox_analysis::Analyzer;
#[cfg(any(feature = "wasm", feature = "containers"))]
use codebox_core::Backend;
#[cfg(any(feature = "wasm", feature = "containers"))]
use codebox_core::BackendError;
use codebox_core::path::{ProtectedDir, ProtectionScope};
use codebox_core::{HostPath, Languages, RunnerError};
#[cfg(any(feature = "wasm", feature = "containers"))]
use codebox_files::{FilesError, Scratch};
use codebox_runner::{Builder, Runner, get_or_create};
#[cfg(feature = "wasm")]
use codebox_runtimes::RuntimeCatalog;
#[cfg(feature = "wasm")]
use codebox_service::EnvLookup;
#[cfg(feature = "cli")]
use codebox_service::JournalOptions;
use codebox_service::Policy;
use codebox_service::catalog::Catalog;
#[cfg(not(feature = "wasm"))]
use codebox_service::catalog::NoRuntimes;
#[cfg(feature = "cli")]
use codebox_service::config::ConfigFiles;
use codebox_service::config::{Settings, read_user};
#[cfg(feature = "cli")]
use codebox_service::config::{narrow, read_project};
#[cfg(feature = "wasm")]
use codebox_wasm::{Engine, WasmBackend};

use crate::app_dirs::{AppDirs, AppDirsError};

/// Name of a project's configuration file, which is read from the working directory.
#[cfg(feature = "cli")]
const PROJECT_FILE: &str = "codebox.toml";

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
    pub(crate) usage: Use,
    /// True if the settings are also those of the project in the working directory.
    #[cfg(feature = "cli")]
    reads_project: bool,
    find_app_dirs: Box<dyn Fn() -> Result<AppDirs, AppDirsError> + Send + Sync>,
    places: OnceLock<AppDirs>,
    settings: OnceLock<Settings>,
    /// The engine of the runtimes, if it exists before the catalog.
    #[cfg(feature = "wasm")]
    pub(crate) engine: OnceLock<Engine>,
    #[cfg(feature = "wasm")]
    pub(crate) catalog: OnceLock<Arc<RuntimeCatalog>>,
    analyzer: OnceLock<Analyzer>,
    /// The installed command whose processes run the guests, if a library uses workers.
    #[cfg(feature = "wasm")]
    pub(crate) workers: OnceLock<PathBuf>,
    #[cfg(feature = "wasm")]
    pub(crate) wasm: OnceLock<Arc<WasmBackend>>,
    /// The backend that opens guests in WebAssembly.
    #[cfg(feature = "wasm")]
    pub(crate) first_tier: OnceLock<Arc<dyn Backend>>,
    #[cfg(any(feature = "wasm", feature = "containers"))]
    scratch: OnceLock<Arc<Scratch>>,
    /// The descriptor over which a confined process receives its connections, if its job has network grants.
    #[cfg(feature = "cli")]
    pub line: Arc<OnceLock<i32>>,
}

impl Machine {
    /// Creates the parts of the machine, whose directories are determined on first use.
    pub(crate) fn new(
        usage: Use,
        find_app_dirs: impl Fn() -> Result<AppDirs, AppDirsError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self::unshared(usage, find_app_dirs))
    }

    /// Creates the parts of a command that runs many jobs, with the settings of the user and of the project.
    #[cfg(feature = "cli")]
    pub(crate) fn of_server(
        find_app_dirs: impl Fn() -> Result<AppDirs, AppDirsError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { reads_project: true, ..Self::unshared(Use::Library, find_app_dirs) })
    }

    fn unshared(usage: Use, find_app_dirs: impl Fn() -> Result<AppDirs, AppDirsError> + Send + Sync + 'static) -> Self {
        Self {
            usage,
            #[cfg(feature = "cli")]
            reads_project: usage == Use::CommandLine,
            find_app_dirs: Box::new(find_app_dirs),
            places: OnceLock::new(),
            settings: OnceLock::new(),
            #[cfg(feature = "wasm")]
            engine: OnceLock::new(),
            #[cfg(feature = "wasm")]
            catalog: OnceLock::new(),
            analyzer: OnceLock::new(),
            #[cfg(feature = "wasm")]
            workers: OnceLock::new(),
            #[cfg(feature = "wasm")]
            wasm: OnceLock::new(),
            #[cfg(feature = "wasm")]
            first_tier: OnceLock::new(),
            #[cfg(any(feature = "wasm", feature = "containers"))]
            scratch: OnceLock::new(),
            #[cfg(feature = "cli")]
            line: Arc::default(),
        }
    }

    pub(crate) fn places(&self) -> Result<&AppDirs, RunnerError> {
        get_or_create(&self.places, || Ok((self.find_app_dirs)()?))
    }

    pub(crate) fn settings(&self) -> Result<&Settings, RunnerError> {
        get_or_create(&self.settings, || self.read_settings())
    }

    /// Returns the paths of the configuration files of the user and of the project in the working directory.
    #[cfg(feature = "cli")]
    pub(crate) fn config_files(&self) -> Result<ConfigFiles, RunnerError> {
        Ok(ConfigFiles { user: self.places()?.config_file(), project: Path::new(PROJECT_FILE).to_owned() })
    }

    /// Returns the place of the journal, and the use of its audit log.
    #[cfg(feature = "cli")]
    pub(crate) fn journal(&self) -> Result<JournalOptions, RunnerError> {
        let (dir, settings) = (self.places()?.jobs(), self.settings()?);
        let (audit, records_text) = (settings.audit.unwrap_or_default(), settings.audit_text);
        Ok(JournalOptions { dir, audit, records_text, keeps_log_open: false })
    }

    pub(crate) fn analyzer(&self) -> Result<&Analyzer, RunnerError> {
        get_or_create(&self.analyzer, || {
            #[cfg(feature = "wasm")]
            let installed = self.installation().map(|installation| installation.programs_dir());
            #[cfg(not(feature = "wasm"))]
            let installed = None;
            Ok(Analyzer::installed_or_below(installed, &self.places()?.programs()))
        })
    }

    #[cfg(any(feature = "wasm", feature = "containers"))]
    pub(crate) fn scratch(&self) -> Result<&Arc<Scratch>, RunnerError> {
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
        #[cfg(feature = "cli")]
        if self.reads_project {
            return Ok(narrow(&user, &read_project(Path::new(PROJECT_FILE))?, Path::new(PROJECT_FILE))?);
        }
        Ok(user)
    }

    /// Creates the private directory of this process.
    #[cfg(any(feature = "wasm", feature = "containers"))]
    fn create_scratch(&self) -> Result<Arc<Scratch>, RunnerError> {
        let scratch = Scratch::new(&self.places()?.scratch()).map_err(|FilesError::Io { doing, path, source }| {
            // A full disk is not an internal error of codebox.
            BackendError::io(format!("{doing} {}", path.display()), source)
        })?;
        Ok(Arc::new(scratch))
    }

    /// Returns the path of a program of the installation: this one, or the one of a library's workers.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        match self.usage {
            #[cfg(feature = "wasm")]
            Use::Library => std::fs::canonicalize(self.workers.get()?).ok(),
            #[cfg(not(feature = "wasm"))]
            Use::Library => None,
            #[cfg(feature = "cli")]
            Use::CommandLine => std::env::current_exe().ok(),
        }
    }

    /// Returns the catalog of the runtimes, which is empty without the WebAssembly tier.
    fn runtimes(&self) -> Result<Arc<dyn Catalog>, RunnerError> {
        #[cfg(feature = "wasm")]
        return Ok(Arc::clone(self.catalog()?) as _);
        #[cfg(not(feature = "wasm"))]
        Ok(Arc::new(NoRuntimes))
    }

    /// Returns all languages, for which the settings have been checked.
    pub(crate) fn languages(&self) -> Result<Languages, RunnerError> {
        #[cfg(feature = "wasm")]
        let languages = self.catalog()?.languages();
        #[cfg(not(feature = "wasm"))]
        let languages = Languages::default();
        self.settings()?.images.check(&languages)?;
        Ok(languages)
    }

    fn policy(&self) -> Result<Policy, RunnerError> {
        let policy = self.settings()?.policy(protected(self.places()?, self.program()));
        Ok(Policy { languages: self.languages()?, ..policy })
    }

    /// Returns a builder with all parts of this machine.
    pub(crate) fn builder(self: &Arc<Self>) -> Builder {
        let builder = self.builder_of_first_tier();
        #[cfg(feature = "containers")]
        let builder = {
            let engines = Arc::clone(self);
            builder.backends(move || engines.engines())
        };
        #[cfg(feature = "packages")]
        let builder = {
            let packages = Arc::clone(self);
            builder.packages(move || packages.packages())
        };
        builder
    }

    /// Returns a builder without the container engines and the packages.
    pub(crate) fn builder_of_first_tier(self: &Arc<Self>) -> Builder {
        let of = || Arc::clone(self);
        let (analyzer, catalog, policy, outputs) = (of(), of(), of(), of());
        let builder = Runner::builder(move || Ok(analyzer.analyzer()?.clone()), move || catalog.runtimes());
        let builder = builder.policy(move || policy.policy());
        let builder = builder.output_files(move || Ok(outputs.places()?.outputs()));
        #[cfg(feature = "wasm")]
        let builder = {
            let (wasm, sessions) = (of(), of());
            let builder = builder.session_dirs(move || Ok(Arc::clone(sessions.scratch()?)));
            builder.backend(move || wasm.first_tier())
        };
        #[cfg(all(feature = "workers", target_os = "linux"))]
        let builder = {
            let workers = of();
            // The first program applies.
            builder.with_worker_support(move |program| drop(workers.workers.set(program)))
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
            settings,
            &self.languages()?,
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
                let wasm = self.first_tier()?;
                Box::new(move |work| work.run_on(&*wasm).is_ok())
            }
            #[cfg(feature = "cli")]
            Use::CommandLine => Box::new(|work| crate::processes::compile_elsewhere(work).unwrap_or(false)),
        };
        Ok(Arc::new(JobPackages::new(dirs, self.settings()?.clone(), self.runtimes()?, env_lookup(), compiler)))
    }
}

#[cfg(feature = "wasm")]
pub(crate) fn env_lookup() -> EnvLookup {
    Arc::new(|name: &str| std::env::var(name).ok())
}

/// Returns codebox's own directories and the engines' sockets, which cannot be granted to guests, and the files of the
/// program, which cannot be granted with write access.
fn protected(places: &AppDirs, program: Option<PathBuf>) -> Vec<ProtectedDir> {
    let own = [&places.data, &places.cache, &places.config];
    let own = own.into_iter().filter_map(|path| HostPath::native(path).ok());
    let own =
        own.map(|path| ProtectedDir { path, what: "codebox's own files".into(), scope: ProtectionScope::Subtree });
    #[cfg(feature = "containers")]
    let own = own.chain(crate::containers::sockets());
    own.chain(files_of_program(program)).collect()
}

/// Returns the programs of the command line and the runtimes that were installed with them: a guest that changes them would run
/// native code at the next start. A library is part of another program, and uses these programs for its workers.
fn files_of_program(program: Option<PathBuf>) -> Vec<ProtectedDir> {
    let Some(program) = program else { return Vec::new() };
    let programs = ["codebox", "codebox-run", "codebox-full"].map(|name| program.with_file_name(name));
    #[cfg(feature = "wasm")]
    let installed = Some(codebox_wasm::Installation::dir_of_program(&program)).flatten();
    #[cfg(not(feature = "wasm"))]
    let installed = None;
    let paths = programs.into_iter().chain(installed).filter(|path| path.exists());
    let protect = |path| ProtectedDir { path, what: "codebox itself".into(), scope: ProtectionScope::Writes };
    paths.filter_map(|path| HostPath::native(&path).ok()).map(protect).collect()
}

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use codebox_analysis::Analyzer;
use codebox_core::{
    AutomaticImage, Backend, ImageUse, InstanceSpec, Limits, Progress, ResultKind, RunnerError, SandboxLayer, Silent,
};
use codebox_files::Scratch;
use codebox_service::catalog::Catalog;
use codebox_service::{
    Admitted, Check, HostEnvironment, Journal, JournalOptions, LinkPolicy, PackageProvider, Policy, Process,
};
use codebox_tools::Toolbox;
use tokio::sync::OnceCell;

use crate::lazy::Lazy;
use crate::offload::Threads;
use crate::runner::Runner;

/// Confinement of the process between the opening of a guest and the start of its program.
pub trait Confinement: Send + Sync {
    /// Drops all rights of the process that the job does not need, until the process ends, and returns the state of
    /// each sandbox layer.
    ///
    /// Called at most once, on the thread that runs the job, after the instance was opened. The report lists the
    /// returned layers.
    ///
    /// # Errors
    /// Returns an error if a layer could not be set up completely; the program is then not run.
    fn confine(&self, admitted: &Admitted, spec: &InstanceSpec) -> Result<Vec<SandboxLayer>, RunnerError>;
}

/// Provider of memory images that are made for programs that run repeatedly.
pub trait AutomaticImages: Send + Sync {
    /// Returns the name of an image if it is made. Otherwise counts the run, and may start to make the image for later runs.
    /// An image that contradicts the job is not used.
    ///
    /// Called before the process confines itself. Must be fast: it is part of every run that imports modules.
    fn find(&self, image: &AutomaticImage, job: ImageUse<'_>) -> Option<String>;
}

type Adjustment = Box<dyn Fn(Policy) -> Policy + Send + Sync>;

type UseWorkers = Box<dyn Fn(PathBuf) + Send + Sync>;

type Checks = Box<dyn Fn() -> Vec<Check> + Send + Sync>;

/// Builder of a [`Runner`].
///
/// Each part is given as a function that creates it on first use. A runner without a package provider refuses jobs with
/// packages, and one without a journal records no jobs.
pub struct Builder {
    pub(crate) policy: Lazy<Policy>,
    adjustments: Vec<Adjustment>,
    pub(crate) environment: Arc<dyn HostEnvironment>,
    pub(crate) analyzer: Lazy<Analyzer>,
    pub(crate) catalog: Lazy<Arc<dyn Catalog>>,
    pub(crate) backends: Vec<Lazy<Vec<Arc<dyn Backend>>>>,
    pub(crate) packages: Option<Lazy<Arc<dyn PackageProvider>>>,
    pub(crate) journal: Option<Lazy<Journal>>,
    pub(crate) session_dirs: Option<Lazy<Arc<Scratch>>>,
    pub(crate) output_files: Option<Lazy<PathBuf>>,
    pub(crate) confinement: Option<Arc<dyn Confinement>>,
    pub(crate) automatic_images: Option<Arc<dyn AutomaticImages>>,
    use_workers: Option<UseWorkers>,
    pub(crate) tools: Option<Arc<Toolbox>>,
    pub(crate) progress: Arc<dyn Progress>,
    pub(crate) checks: Checks,
    pub(crate) threads: Threads,
}

impl Builder {
    pub(crate) fn new(
        analyzer: impl Fn() -> Result<Analyzer, RunnerError> + Send + Sync + 'static,
        catalog: impl Fn() -> Result<Arc<dyn Catalog>, RunnerError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            policy: Lazy::new(|| Ok(Policy::default())),
            adjustments: Vec::new(),
            environment: Arc::new(Process),
            analyzer: Lazy::new(analyzer),
            catalog: Lazy::new(catalog),
            backends: Vec::new(),
            packages: None,
            journal: None,
            session_dirs: None,
            output_files: None,
            confinement: None,
            automatic_images: None,
            use_workers: None,
            tools: None,
            progress: Arc::new(Silent),
            checks: Box::new(Vec::new),
            threads: Threads::Executor,
        }
    }

    /// Sets the host tools that requests can grant to their programs by name.
    #[must_use]
    pub fn tools(self, tools: Toolbox) -> Self {
        Self { tools: Some(Arc::new(tools)), ..self }
    }

    /// Sets the policy: ceilings, defaults, and what may be granted. Without one, the default policy applies.
    #[must_use]
    pub fn policy(self, policy: impl Fn() -> Result<Policy, RunnerError> + Send + Sync + 'static) -> Self {
        Self { policy: Lazy::new(policy), ..self }
    }

    /// Changes the policy, whether it is set before or after this call. Several changes apply in their order.
    #[must_use]
    pub fn adjust_policy(mut self, adjust: impl Fn(Policy) -> Policy + Send + Sync + 'static) -> Self {
        self.adjustments.push(Box::new(adjust));
        self
    }

    /// Admits limits above the ceilings of the policy.
    #[must_use]
    pub fn without_ceilings(self) -> Self {
        self.adjust_policy(|policy| Policy { ceilings: Limits::unlimited(), ..policy })
    }

    /// Admits grants that expose codebox's own directories or the sockets of container engines.
    #[must_use]
    pub fn without_protected_dirs(self) -> Self {
        self.adjust_policy(|policy| Policy { protected: Vec::new(), ..policy })
    }

    /// Admits granted directories whose paths contain symbolic links below the working directory.
    #[must_use]
    pub fn follow_links(self) -> Self {
        self.adjust_policy(|policy| Policy { links: LinkPolicy::Follow, ..policy })
    }

    /// Sets the environment and the working directory that requests are resolved against. Without one, those of this
    /// process apply.
    #[must_use]
    pub fn environment(self, environment: Arc<dyn HostEnvironment>) -> Self {
        Self { environment, ..self }
    }

    /// Adds a backend. Among backends of equal isolation the first one is preferred.
    #[must_use]
    pub fn backend(self, backend: impl Fn() -> Result<Arc<dyn Backend>, RunnerError> + Send + Sync + 'static) -> Self {
        self.backends(move || Ok(vec![backend()?]))
    }

    /// Adds several backends that are created together.
    #[must_use]
    pub fn backends(
        mut self,
        backends: impl Fn() -> Result<Vec<Arc<dyn Backend>>, RunnerError> + Send + Sync + 'static,
    ) -> Self {
        self.backends.push(Lazy::new(backends));
        self
    }

    /// Sets the provider of images for programs that run repeatedly. Without one, programs start from the images that their runtime
    /// and their user have made.
    #[must_use]
    pub fn automatic_images(self, images: Arc<dyn AutomaticImages>) -> Self {
        Self { automatic_images: Some(images), ..self }
    }

    /// Runs each program in WebAssembly in a process of its own, which confines itself to the grants of the job as a process of the
    /// command line does. The process ends with the job.
    ///
    /// Without workers, all programs run in this process, separated by WebAssembly alone. With workers, a program that leaves
    /// its sandbox reaches only what its own job was granted, and the reports list the layers of the confinement. A job takes a
    /// few milliseconds longer.
    ///
    /// `program` is the path of the installed command `codebox`, with `codebox-full` in the same directory, of the version of this
    /// library; links are followed. The first call applies. Workers are forked by the user's host process, which is started
    /// if it does not run, or started directly if it is disabled, busy or cannot serve the runner's directories. The runtimes of
    /// the installation are used if the program was installed with them. Of this process's environment, a worker gets `HOME`,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR`. All paths must be UTF-8.
    ///
    /// Packages are installed and runtimes prepared in this process. A worker that ends without a report gives an error of the
    /// kind [`EngineLost`](ResultKind::EngineLost).
    ///
    /// Available on Linux, with the feature `workers`. Elsewhere every job fails.
    #[must_use]
    pub fn workers(mut self, program: impl Into<PathBuf>) -> Self {
        match &self.use_workers {
            Some(use_workers) => use_workers(program.into()),
            None => {
                let unsupported = || {
                    let error = RunnerError::new(ResultKind::InvalidRequest, "workers are not available in this build");
                    Err(error.with_fix(
                        "use Linux and the feature `workers` of codebox, or remove `workers` from the builder",
                    ))
                };
                self.backends = vec![Lazy::new(unsupported)];
            }
        }
        self
    }

    /// Declares that the backends can run their guests in workers. `use_workers` receives the program of the workers before any
    /// part is created.
    #[must_use]
    pub fn with_worker_support(self, use_workers: impl Fn(PathBuf) + Send + Sync + 'static) -> Self {
        Self { use_workers: Some(Box::new(use_workers)), ..self }
    }

    /// Sets the provider of packages.
    #[must_use]
    pub fn packages(
        self,
        packages: impl Fn() -> Result<Arc<dyn PackageProvider>, RunnerError> + Send + Sync + 'static,
    ) -> Self {
        Self { packages: Some(Lazy::new(packages)), ..self }
    }

    /// Records every job in a journal, and in its audit log, before it runs.
    #[must_use]
    pub fn journal(self, options: impl Fn() -> Result<JournalOptions, RunnerError> + Send + Sync + 'static) -> Self {
        Self { journal: Some(Lazy::new(move || Ok(Journal::open(options()?)?))), ..self }
    }

    /// Sets the private directory of this process, in which sessions keep their checkpoints. Without one, they have none.
    #[must_use]
    pub fn session_dirs(self, dirs: impl Fn() -> Result<Arc<Scratch>, RunnerError> + Send + Sync + 'static) -> Self {
        Self { session_dirs: Some(Lazy::new(dirs)), ..self }
    }

    /// Sets the directory of files with whole outputs, of runs whose request has an
    /// [`output_shape`](codebox_service::Request::output_shape). The newest 200 are kept. Without one, the rest of the output is lost.
    #[must_use]
    pub fn output_files(self, dir: impl Fn() -> Result<PathBuf, RunnerError> + Send + Sync + 'static) -> Self {
        Self { output_files: Some(Lazy::new(dir)), ..self }
    }

    /// Confines the process before a program starts in WebAssembly. The runner then runs one job only.
    #[must_use]
    pub fn confinement(self, confinement: Arc<dyn Confinement>) -> Self {
        Self { confinement: Some(confinement), ..self }
    }

    /// Sets the receiver of progress and messages.
    #[must_use]
    pub fn progress(self, progress: Arc<dyn Progress>) -> Self {
        Self { progress, ..self }
    }

    /// Adds checks of this machine to those of the runner's parts.
    #[must_use]
    pub fn checks(self, checks: impl Fn() -> Vec<Check> + Send + Sync + 'static) -> Self {
        Self { checks: Box::new(checks), ..self }
    }

    /// Declares that the process runs one job and then ends. Blocking work then runs on threads that have ended before
    /// the program starts.
    #[must_use]
    pub fn single_job(self) -> Self {
        Self { threads: Threads::Dedicated, ..self }
    }

    /// Builds the runner. Creates none of its parts.
    #[must_use]
    pub fn build(mut self) -> Runner {
        let adjustments = std::mem::take(&mut self.adjustments);
        if !adjustments.is_empty() {
            let policy = self.policy;
            self.policy = Lazy::new(move || {
                let policy = policy.get()?.clone();
                Ok(adjustments.iter().fold(policy, |policy, adjust| adjust(policy)))
            });
        }
        Runner { parts: self, candidates: OnceCell::new(), prepared: Mutex::new(BTreeMap::new()) }
    }
}

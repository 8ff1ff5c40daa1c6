//! The container backend.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, BoxHost, BoxInstance, BoxSettings, Capabilities, ContainerHost,
    Diagnosis, ImageName, ImageStore, Instance, InstanceSpec, Isolation, LeftoverCollector, LimitKind, Progress,
    Support, Sweep, Unavailable, WarmPool,
};
use codebox_files::Scratch;
use tokio::sync::OnceCell;

use crate::attached;
use crate::boxes::ContainerBox;
use crate::discover::{Candidate, may_be_available};
use crate::enforcement::limit_enforcement;
use crate::engine::{Engine, MACHINE_BACKEND};
use crate::engine_machine::{EngineMachine, unavailable};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::flavour::Flavour;
use crate::gc;
use crate::images::{self, ImageFacts, ImageTable};
use crate::instance::ContainerInstance;
use crate::port_forwards::PortForwards;
use crate::shared::Shared;
use crate::warm::{self, AcquireResult, Pool, PoolRequest, Shape, SocketDir, StartPoolDaemon};

/// Settings that the backends of both engines share.
#[derive(Clone)]
pub struct Settings {
    /// Addresses at which an engine may listen, in order.
    pub candidates: Vec<Candidate>,
    /// Images of the languages.
    pub images: ImageTable,
    /// This process's private directory. Other processes see by its lock that this process is alive.
    pub scratch: Arc<Scratch>,
    /// Directory for the agent's program file and for the cache of engine facts.
    pub folder: PathBuf,
    /// The machine's certificate authorities in one file, for programs that use TLS through a proxy.
    pub ca_bundle: Option<PathBuf>,
    /// Function that starts a pool daemon, which keeps containers ready for other processes. Without it this process
    /// keeps its own.
    pub start_pool_daemon: Option<StartPoolDaemon>,
    /// Parser for the TypeScript of jobs.
    pub analyzer: Analyzer,
}

mod powers;

/// Backend that runs jobs in containers of one engine.
pub struct ContainerBackend {
    flavour: Flavour,
    shared: Arc<Shared>,
    start_pool_daemon: Option<StartPoolDaemon>,
    engine: OnceCell<Engine>,
    /// True once this process has swept leftovers.
    has_swept: AtomicBool,
    /// Containers that this process itself keeps ready.
    pool: OnceLock<Arc<Pool>>,
    /// Virtual machine with the engine; `None` if it runs on this machine.
    machine: Option<Arc<dyn EngineMachine>>,
}

impl ContainerBackend {
    /// Creates a backend for each of these engines, in this order, without searching for the engines.
    #[must_use]
    pub fn create_all(flavours: impl IntoIterator<Item = Flavour>, settings: Settings) -> Vec<Self> {
        let Settings { candidates, images, scratch, folder, ca_bundle, start_pool_daemon, analyzer } = settings;
        let shared = Arc::new(Shared::new(candidates, images, scratch, folder, ca_bundle, analyzer));
        let backend = |flavour| Self {
            flavour,
            shared: Arc::clone(&shared),
            start_pool_daemon: start_pool_daemon.clone(),
            engine: OnceCell::new(),
            has_swept: AtomicBool::new(false),
            pool: OnceLock::new(),
            machine: None,
        };
        flavours.into_iter().map(backend).collect()
    }

    /// Creates the backend whose engine is Podman in a virtual machine, without starting the machine.
    #[must_use]
    pub fn in_machine(machine: Arc<dyn EngineMachine>, settings: Settings) -> Option<Self> {
        let backend = Self::create_all([Flavour::Podman], Settings { start_pool_daemon: None, ..settings }).pop()?;
        Some(Self { machine: Some(machine), ..backend })
    }

    /// Returns the engine, and searches for it on the first call. A virtual machine is started.
    pub(crate) async fn engine(&self) -> Result<&Engine, ContainerError> {
        let facts_cache = &self.shared.facts_cache;
        match &self.machine {
            None => {
                self.engine.get_or_try_init(|| Engine::find(self.flavour, &self.shared.candidates, facts_cache)).await
            }
            Some(machine) => {
                // It can have been turned off since the last call.
                let found = machine.start().await.map_err(unavailable)?;
                self.engine.get_or_try_init(|| Engine::in_machine(machine, &found, facts_cache)).await
            }
        }
    }

    /// Returns true for an engine in a virtual machine that does not run: it has neither containers nor a list of images.
    fn is_off(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| !machine.is_running())
    }

    /// Returns the state that the backends share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Returns the socket directory of the pool daemons for an engine.
    fn daemon_sockets(&self, facts: &EngineFacts) -> SocketDir {
        SocketDir::new(self.shared.folder.join("warm"), facts.flavour, &facts.place)
    }

    fn capabilities(&self, facts: &EngineFacts) -> Capabilities {
        Capabilities {
            languages: self.shared.images.languages(),
            forbidden: self.shared.images.forbidden(),
            limits: limit_enforcement(facts),
            snapshot: Support::No,
            fork: Support::No,
            network_filter: Support::Yes,
            offline: Vec::new(),
            fuel: Support::No,
            engine: Some(facts.summary()),
        }
    }

    /// Converts an error of this backend into the error type of all backends.
    pub(crate) fn convert_error(&self, error: ContainerError) -> BackendError {
        error.of(&Backend::id(self))
    }

    /// Returns the facts that the engine reports about itself.
    ///
    /// # Errors
    /// Returns an error if no engine answers.
    pub(crate) async fn facts(&self) -> Result<EngineFacts, ContainerError> {
        Ok(self.engine().await?.facts.clone())
    }

    /// Returns the name of the image from which an instance would start.
    fn image_of(&self, spec: &InstanceSpec) -> Result<ImageName, ContainerError> {
        match &spec.image {
            Some(name) => name.parse().map_err(|error: codebox_core::NameError| ContainerError::Input {
                subject: "image".to_owned(),
                why: error.to_string(),
            }),
            None => self.shared.images.of(&spec.language).cloned().ok_or_else(|| ContainerError::Input {
                subject: format!("language {}", spec.language),
                why: "no image is configured for it; pass one with --image".to_owned(),
            }),
        }
    }

    async fn start(&self, spec: &InstanceSpec) -> Result<ContainerInstance, ContainerError> {
        if spec.limits.fuel.at().is_some() {
            return Err(ContainerError::Limit(LimitKind::Fuel));
        }
        let engine = self.engine().await?.clone();
        let name = self.image_of(spec)?;
        let image: ImageFacts = images::look_up(&engine.client, &name).await?;
        let (warm_instance, start_pool_daemon) = self.warm_instance(&engine, &image, spec).await?;
        let mut instance = match warm_instance {
            Some(warm_instance) => warm_instance,
            None => ContainerInstance::open(&self.shared, engine.clone(), image, spec).await?,
        };
        instance.set_analyzer(self.shared.analyzer.clone());
        if let Some(start) = start_pool_daemon {
            instance.on_close(start);
        }
        // Runs once per process, beside the job. A pool daemon sweeps for the containers that it leases.
        if !instance.is_leased() && !self.has_swept.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(&self.shared);
            instance.set_background(tokio::spawn(async move {
                let _ = gc::mounts(&shared.mounts_dir(), shared.owners(), Sweep::Remove);
                let Ok(secret) = shared.secret() else { return };
                let _ = gc::containers(&engine, &shared.owner, secret, shared.owners(), Sweep::Remove).await;
            }));
        }
        Ok(instance)
    }
}

/// Work to do once a job is over.
type OnClose = Box<dyn FnOnce() + Send>;

impl ContainerBackend {
    /// Returns a warm container if the job wants one and one is ready; otherwise the work after the job that prepares
    /// one for the next job.
    async fn warm_instance(
        &self,
        engine: &Engine,
        image: &ImageFacts,
        spec: &InstanceSpec,
    ) -> Result<(Option<ContainerInstance>, Option<OnClose>), ContainerError> {
        // Warm containers have no layers, and directories of no virtual machine.
        let plain = spec.layers.is_empty() && self.machine.is_none();
        let (Some(count), Some(shape), true) = (spec.warm, Shape::of(image, spec), plain) else {
            return Ok((None, None));
        };
        let Some(start) = &self.start_pool_daemon else {
            return Ok((self.own(engine, &shape, count), None));
        };
        let requested_at = Instant::now();
        let pool_request = PoolRequest { build: warm::build(), place: engine.facts.place.clone(), count, shape };
        match warm::acquire(&self.daemon_sockets(&engine.facts), &pool_request).await {
            AcquireResult::Leased(lease, agent_connection) => {
                let leased = ContainerInstance::from_lease(
                    engine.clone(),
                    image.clone(),
                    *lease,
                    agent_connection,
                    PortForwards::of(&spec.grants.net),
                    self.shared.ca_bundle.as_ref().map(|_| crate::harden::CA_BUNDLE),
                    requested_at,
                );
                // If the leased container no longer exists, a new one is created.
                Ok((leased.ok(), None))
            }
            AcquireResult::NoDaemon if count > 0 => {
                let (start, flavour) = (Arc::clone(start), self.flavour);
                let text = serde_json::to_string(&pool_request).unwrap_or_default();
                let start = move || {
                    warm::set_cloexec_on_all();
                    let _ = start(flavour, &text);
                };
                Ok((None, Some(Box::new(start))))
            }
            AcquireResult::NoDaemon | AcquireResult::None => Ok((None, None)),
        }
    }

    /// Returns a container from this process's own pool.
    fn own(&self, engine: &Engine, shape: &Shape, count: u32) -> Option<ContainerInstance> {
        let pool = self.pool.get_or_init(|| Arc::new(Pool::new(Arc::clone(&self.shared), engine.clone())));
        let warm_instance = pool.take(shape, count);
        let pool = Arc::clone(pool);
        tokio::spawn(async move { pool.fill().await });
        warm_instance
    }
}

impl BoxHost for ContainerBackend {
    fn open<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        settings: &'a BoxSettings,
    ) -> BoxFuture<'a, Result<Box<dyn BoxInstance>, BackendError>> {
        Box::pin(async move {
            let opened = async {
                let engine = self.engine().await?.clone();
                let image = images::look_up(&engine.client, &self.image_of(spec)?).await?;
                ContainerBox::open(&self.shared, engine, image, spec, settings).await
            };
            let opened = opened.await.map_err(|error| self.convert_error(error))?;
            Ok(Box::new(opened) as Box<dyn BoxInstance>)
        })
    }
}

impl Backend for ContainerBackend {
    fn id(&self) -> BackendId {
        if self.machine.is_some() { MACHINE_BACKEND } else { self.flavour.id() }
    }

    fn isolation(&self) -> Isolation {
        if self.machine.is_some() { Isolation::Vm } else { Isolation::Container }
    }

    fn report_to(&self, progress: &Arc<dyn Progress>) {
        if let Some(machine) = &self.machine {
            machine.report_to(progress);
        }
    }

    /// Checks whether a socket exists at a candidate address, or a network address is among the candidates.
    fn may_be_available(&self) -> bool {
        match &self.machine {
            Some(machine) => machine.may_be_available(),
            None => may_be_available(&self.shared.candidates, self.flavour),
        }
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        Some(self)
    }

    fn boxes(&self) -> Option<&dyn BoxHost> {
        cfg!(unix).then_some(self)
    }

    fn containers(&self) -> Option<&dyn ContainerHost> {
        // The containers of the machine are those of codebox.
        self.machine.is_none().then_some(self)
    }

    fn leftovers(&self) -> Option<&dyn LeftoverCollector> {
        Some(self)
    }

    fn warm_pool(&self) -> Option<&dyn WarmPool> {
        self.machine.is_none().then_some(self)
    }

    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        Box::pin(async move {
            if let Some(machine) = self.machine.as_ref().filter(|_| self.is_off()) {
                return powers::machine_diagnosis(machine.probe());
            }
            powers::diagnosis(&self.id(), self.facts().await.map_err(|error| self.convert_error(error)))
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async move {
            if let Some(machine) = self.machine.as_ref().filter(|_| self.engine.get().is_none() && self.is_off()) {
                machine.probe()?;
                return Ok(self.capabilities(&EngineFacts::of_machine()));
            }
            let facts = match self.engine().await {
                Ok(engine) => &engine.facts,
                Err(ContainerError::NoEngine { reason, fix, unresponsive: _ }) => {
                    return Err(Unavailable { reason, fix });
                }
                Err(error) => {
                    let fix = "see codebox doctor".to_owned();
                    return Err(Unavailable { reason: error.to_string(), fix });
                }
            };
            Ok(self.capabilities(facts))
        })
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async move {
            let opened = async {
                if spec.attachment.is_some() {
                    return attached::open(&self.shared, self.engine().await?.clone(), spec).await;
                }
                Ok(Box::new(self.start(spec).await?) as Box<dyn Instance>)
            };
            opened.await.map_err(|error| self.convert_error(error))
        })
    }
}

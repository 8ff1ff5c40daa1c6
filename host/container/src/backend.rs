//! The container backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use codebox_analysis::Analyzer;
use codebox_core::{
    Backend, BackendError, BackendId, BoxFuture, Capabilities, Diagnosis, Held, ImageName, ImageStore, Instance,
    InstanceSpec, Isolation, LayerState, LeftoverCollector, LimitKind, SandboxLayer, Support, Sweep, Unavailable,
    WarmPool,
};
use codebox_files::{ProgramFile, Scratch};
use tokio::sync::OnceCell;

use crate::discover::{Candidate, Chosen, Place};
use crate::doors::Doors;
use crate::engine::{Engine, Flavour};
use crate::error::ContainerError;
use crate::facts::EngineFacts;
use crate::gc;
use crate::home_secret::HomeSecret;
use crate::images::{self, ImageFacts, ImageTable};
use crate::instance::ContainerInstance;
use crate::labels::Owner;
use crate::notes::Notes;
use crate::warm::{self, Answer, Asked, Folder, Pool, Shape, StartKeeper};

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
    pub authorities: Option<PathBuf>,
    /// Function that starts a pool daemon, which keeps containers ready for other processes. Without it this process
    /// keeps its own.
    pub keeper: Option<StartKeeper>,
    /// Parser for the TypeScript of jobs.
    pub analyzer: Analyzer,
}

mod powers;

/// State of a backend that its instances share.
pub(crate) struct Shared {
    pub candidates: Vec<Candidate>,
    pub images: ImageTable,
    pub scratch: Arc<Scratch>,
    pub owner: Owner,
    pub authorities: Option<PathBuf>,
    pub notes: Notes,
    pub keeper: Option<StartKeeper>,
    analyzer: Analyzer,
    folder: PathBuf,
    agent: OnceLock<ProgramFile>,
    secret: OnceLock<HomeSecret>,
}

impl Shared {
    /// Returns the agent's program file, and installs it on the first call.
    pub(crate) fn agent(&self) -> Result<&ProgramFile, ContainerError> {
        if let Some(agent) = self.agent.get() {
            return Ok(agent);
        }
        let agent = crate::agent_file::agent_program(&self.folder)?;
        Ok(self.agent.get_or_init(|| agent))
    }

    /// Returns the secret of this home, which identifies the home's containers.
    pub(crate) fn secret(&self) -> Result<&HomeSecret, ContainerError> {
        if let Some(secret) = self.secret.get() {
            return Ok(secret);
        }
        let secret =
            HomeSecret::load_or_create(&self.folder).map_err(ContainerError::io("create a secret in", &self.folder))?;
        Ok(self.secret.get_or_init(|| secret))
    }

    /// Returns the socket directory of the pool daemons for an engine.
    fn keepers(&self, facts: &EngineFacts) -> Folder {
        Folder::new(self.folder.join("warm"), facts.flavour, &facts.place)
    }

    /// Returns the directory for mounts of granted directories. It is beside the private directories and never below
    /// one, because the contents of private directories are removed.
    pub(crate) fn points(&self) -> PathBuf {
        self.owners().with_file_name("mounts")
    }

    /// Returns the parent directory of all owners' private directories.
    pub(crate) fn owners(&self) -> &Path {
        let own = self.scratch.path();
        own.parent().unwrap_or(own)
    }
}

/// Backend that runs jobs in containers of one engine.
pub struct ContainerBackend {
    flavour: Flavour,
    shared: Arc<Shared>,
    engine: OnceCell<Engine>,
    /// True once this process has swept leftovers.
    swept: AtomicBool,
    /// Containers that this process itself keeps ready.
    pool: OnceLock<Arc<Pool>>,
}

impl ContainerBackend {
    /// Creates a backend for each of these engines, in this order, without searching for the engines.
    #[must_use]
    pub fn each(flavours: impl IntoIterator<Item = Flavour>, settings: Settings) -> Vec<Self> {
        let Settings { candidates, images, scratch, folder, authorities, keeper, analyzer } = settings;
        let owner = Owner::at(scratch.path());
        let (agent, secret, notes) = (OnceLock::new(), OnceLock::new(), Notes::below(folder.join("engines")));
        let shared =
            Shared { candidates, images, scratch, owner, authorities, notes, keeper, analyzer, folder, agent, secret };
        let shared = Arc::new(shared);
        let backend = |flavour| Self {
            flavour,
            shared: Arc::clone(&shared),
            engine: OnceCell::new(),
            swept: AtomicBool::new(false),
            pool: OnceLock::new(),
        };
        flavours.into_iter().map(backend).collect()
    }

    /// Returns the engine, and searches for it on the first call.
    async fn engine(&self) -> Result<&Engine, ContainerError> {
        self.engine.get_or_try_init(|| Engine::find(self.flavour, &self.shared.candidates, &self.shared.notes)).await
    }

    /// Converts an error of this backend into the error type of all backends.
    fn converted(&self, error: ContainerError) -> BackendError {
        error.of(&self.flavour.id())
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
        let (ready, keeper) = self.ready(&engine, &image, spec).await?;
        let mut instance = match ready {
            Some(ready) => ready,
            None => ContainerInstance::open(&self.shared, engine.clone(), image, spec).await?,
        };
        instance.analyzing(self.shared.analyzer.clone());
        if let Some(start) = keeper {
            instance.afterwards(start);
        }
        // Runs once per process, beside the job. A pool daemon sweeps for the containers that it lends.
        if !instance.is_lent() && !self.swept.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(&self.shared);
            instance.meanwhile(tokio::spawn(async move {
                let _ = gc::mounts(&shared.points(), shared.owners(), Sweep::Remove);
                let Ok(secret) = shared.secret() else { return };
                let _ = gc::containers(&engine, &shared.owner, secret, shared.owners(), Sweep::Remove).await;
            }));
        }
        Ok(instance)
    }
}

/// Work to do once a job is over.
type Afterwards = Box<dyn FnOnce() + Send>;

impl ContainerBackend {
    /// Returns a warm container if the job wants one and one is ready; otherwise the work after the job that prepares
    /// one for the next job.
    async fn ready(
        &self,
        engine: &Engine,
        image: &ImageFacts,
        spec: &InstanceSpec,
    ) -> Result<(Option<ContainerInstance>, Option<Afterwards>), ContainerError> {
        // Warm containers have no layers.
        let plain = spec.layers.is_empty();
        let (Some(count), Some(shape), true) = (spec.warm, Shape::of(image, spec), plain) else {
            return Ok((None, None));
        };
        let Some(start) = &self.shared.keeper else {
            return Ok((self.own(engine, &shape, count), None));
        };
        let asked = Instant::now();
        let asks = Asked { build: warm::build(), place: engine.facts.place.clone(), count, shape };
        match warm::ask(&self.shared.keepers(&engine.facts), &asks).await {
            Answer::Lent(lease, talk) => {
                let doors = Doors::of(&spec.grants.net);
                let inside = (doors, self.shared.authorities.as_ref().map(|_| crate::harden::AUTHORITIES));
                let lent = ContainerInstance::lent(engine.clone(), image.clone(), (*lease, talk), inside, asked);
                // If the lent container no longer exists, a new one is created.
                Ok((lent.ok(), None))
            }
            Answer::Nobody if count > 0 => {
                let (start, flavour) = (Arc::clone(start), self.flavour);
                let text = serde_json::to_string(&asks).unwrap_or_default();
                let start = move || {
                    warm::keep_here();
                    let _ = start(flavour, &text);
                };
                Ok((None, Some(Box::new(start))))
            }
            Answer::Nobody | Answer::None => Ok((None, None)),
        }
    }

    /// Returns a container from this process's own pool.
    fn own(&self, engine: &Engine, shape: &Shape, count: u32) -> Option<ContainerInstance> {
        let pool = self.pool.get_or_init(|| Arc::new(Pool::new(Arc::clone(&self.shared), engine.clone())));
        let ready = pool.take(shape, count);
        let pool = Arc::clone(pool);
        tokio::spawn(async move { pool.fill().await });
        ready
    }
}

/// Returns how well each limit is enforced.
pub(crate) fn held(facts: &EngineFacts) -> BTreeMap<LimitKind, Held> {
    let if_so = |so: bool| if so { Held::Enforced } else { Held::Unsupported };
    LimitKind::ALL
        .into_iter()
        .map(|kind| {
            let held = match kind {
                LimitKind::Wall
                | LimitKind::Output
                | LimitKind::OpenFiles
                | LimitKind::NetBytes
                | LimitKind::NetConnections => Held::Enforced,
                // Checked a hundred times per second, over all processes.
                LimitKind::Cpu if facts.own_groups => Held::BestEffort,
                LimitKind::Cpu => Held::Unsupported,
                LimitKind::Memory if facts.limits_memory && !facts.counts_swap => Held::BestEffort,
                LimitKind::Memory => if_so(facts.limits_memory),
                LimitKind::Processes => if_so(facts.limits_processes),
                // No single file can exceed the limit. The total is checked while the job runs.
                LimitKind::Disk | LimitKind::Files => Held::BestEffort,
                LimitKind::Fuel => Held::Unsupported,
            };
            (kind, held)
        })
        .collect()
}

/// Network access of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// No access.
    None,
    /// Access to the granted hosts.
    Granted,
}

/// Returns the sandbox layers between a job and the machine.
pub(crate) fn layers(facts: &EngineFacts, network: Network) -> Vec<SandboxLayer> {
    let layer =
        |name: &str, state, detail: &str| SandboxLayer { name: name.to_owned(), state, detail: detail.to_owned() };
    let network = match network {
        Network::None => "no network",
        Network::Granted => "network access to granted hosts only, through this process",
    };
    let user = if facts.rootless { "the calling user" } else { "a user without privileges on the host" };
    vec![
        layer(
            "namespaces",
            LayerState::Held,
            &format!("separate processes, file system, host name and IPC, and {network}"),
        ),
        layer("capabilities", LayerState::Held, &format!("none, as {user}, and none can be gained")),
        match facts.seccomp {
            true => layer("seccomp", LayerState::Held, "the engine's default seccomp profile"),
            false => layer("seccomp", LayerState::Unavailable, "not supported by the engine"),
        },
    ]
}

impl Backend for ContainerBackend {
    fn id(&self) -> BackendId {
        self.flavour.id()
    }

    fn isolation(&self) -> Isolation {
        Isolation::Container
    }

    /// Checks whether a socket exists at a candidate address, or a network address is among the candidates.
    fn may_be_available(&self) -> bool {
        for candidate in &self.shared.candidates {
            match &candidate.place {
                Place::Unix(path) if std::fs::symlink_metadata(path).is_ok() => return true,
                Place::Tcp(_) => return true,
                // An address that the user has named excludes all others.
                Place::Unix(_) | Place::Unusable(_) if candidate.chosen == Chosen::ByUser(self.flavour) => {
                    return false;
                }
                Place::Unix(_) | Place::Unusable(_) => {}
            }
        }
        false
    }

    fn image_store(&self) -> Option<&dyn ImageStore> {
        Some(self)
    }

    fn leftovers(&self) -> Option<&dyn LeftoverCollector> {
        Some(self)
    }

    fn warm_pool(&self) -> Option<&dyn WarmPool> {
        Some(self)
    }

    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        Box::pin(
            async move { powers::diagnosis(&self.flavour, self.facts().await.map_err(|error| self.converted(error))) },
        )
    }

    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>> {
        Box::pin(async move {
            let facts = match self.engine().await {
                Ok(engine) => &engine.facts,
                Err(ContainerError::NoEngine { reason, fix, silent: _ }) => return Err(Unavailable { reason, fix }),
                Err(error) => {
                    let fix = "see codebox doctor".to_owned();
                    return Err(Unavailable { reason: error.to_string(), fix });
                }
            };
            Ok(Capabilities {
                languages: self.shared.images.languages(),
                forbidden: self.shared.images.forbidden(),
                limits: held(facts),
                snapshot: Support::No,
                fork: Support::No,
                network_filter: Support::Yes,
                offline: Vec::new(),
                fuel: Support::No,
                engine: Some(facts.phrase()),
            })
        })
    }

    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>> {
        Box::pin(async move {
            let instance = self.start(spec).await.map_err(|error| error.of(&self.flavour.id()))?;
            Ok(Box::new(instance) as Box<dyn Instance>)
        })
    }
}

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::attached::{Attachment, ContainerHost};
use crate::backend_id::BackendId;
use crate::boxes::BoxHost;
use crate::code::CodeScope;
use crate::grants::Grants;
use crate::image::ImageName;
use crate::isolation::Isolation;
use crate::job::Job;
use crate::language::Language;
use crate::limits::{Cpus, EnforcementLevel, LimitKind, Limits};
use crate::path::GuestPath;
use crate::progress::Progress;
use crate::report::RunReport;

mod cancel;
mod error;
mod features;
mod io;

pub use cancel::{CallbackGuard, CancelToken, Cancelled};
pub use error::{BackendError, BoxedError, PartialOutput};
pub use features::{
    Diagnosis, Finding, ImageStore, Leftover, LeftoverCollector, Leftovers, LocalImage, Sweep, WarmPool,
};
pub use io::{ExecIo, InputMode, InputModes, OutputSink, Resizes, ResultSink, Shown};

/// Boxed future that keeps the traits of this crate object-safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Execution backend for jobs.
///
/// One run is `open`, `exec`, `close`; a session keeps the instance. `probe` announces the optional features, and
/// callers use only features that it announced.
pub trait Backend: Send + Sync {
    /// Returns the backend's name.
    fn id(&self) -> BackendId;

    /// Returns the isolation between guest and host, which is known before the backend is probed.
    fn isolation(&self) -> Isolation;

    /// Returns the backend's capabilities on this machine, or the missing requirement and its fix.
    ///
    /// The probe is cheap and starts nothing: no download, no compilation, no virtual machine.
    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>>;

    /// Creates an instance that has exactly the grants and limits of `spec`.
    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>>;

    /// Returns false if the backend is certainly unavailable. Connects to nothing.
    fn may_be_available(&self) -> bool {
        true
    }

    /// Loads the parts of the backend that a job probably needs, before its program is analyzed. The run reports any
    /// failure.
    fn preload(&self, _job: &Job) {}

    /// Sets the receiver of reports about long preparations that the backend makes by itself, such as the start of a virtual machine. The
    /// first one stays.
    fn report_to(&self, _progress: &Arc<dyn Progress>) {}

    /// Writes a checkpoint of a session, which extends `image`, to a new directory, blocking the calling thread. The new one extends the
    /// [initial image](INITIAL_IMAGE), which every machine with the same runtime has.
    ///
    /// # Errors
    /// Returns an error if the backend has no checkpoints, if this one is malformed, or if it cannot be read or written.
    fn export_checkpoint(
        &self,
        _language: &Language,
        _image: &str,
        _from: &Path,
        _to: &Path,
    ) -> Result<(), BackendError> {
        Err(no_checkpoints())
    }

    /// Returns the image store, if the backend's guests start from images of a registry.
    fn image_store(&self) -> Option<&dyn ImageStore> {
        None
    }

    /// Returns the boxes, if the backend has any.
    fn boxes(&self) -> Option<&dyn BoxHost> {
        None
    }

    /// Returns the way into running containers, if the backend has one.
    fn containers(&self) -> Option<&dyn ContainerHost> {
        None
    }

    /// Returns the collector of leftovers, if killed processes can leave resources behind.
    fn leftovers(&self) -> Option<&dyn LeftoverCollector> {
        None
    }

    /// Returns the pool of warm instances, if the backend keeps one beyond the life of this process.
    fn warm_pool(&self) -> Option<&dyn WarmPool> {
        None
    }

    /// Checks the backend's installation on this machine. Starts and changes nothing.
    fn diagnose(&self) -> BoxFuture<'_, Diagnosis> {
        Box::pin(std::future::ready(Diagnosis::default()))
    }
}

/// Live guest environment.
///
/// Dropping an instance only kills the guest; [`Instance::close`] ends it properly.
pub trait Instance: Send {
    /// Runs `job` and streams its output to `io` as the job produces it.
    ///
    /// The report covers everything that the guest did. An error means that the backend cannot determine what the guest
    /// did. Dropping the future kills the guest.
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>>;

    /// Saves the state of a session between two jobs in a new directory below that of its [`SessionSpec::checkpoints`].
    ///
    /// A state has several files of pages, the oldest first, and the first `shared` ones of the state before, to which the session was
    /// saved or from which it was restored, can be part of the new state. They are not written again. Returns the number of those that
    /// are; the caller links them with the names of [`earlier_pages_file`](crate::earlier_pages_file).
    ///
    /// # Errors
    /// Returns an error if the instance cannot save its state, or if something is open that a checkpoint cannot contain. The
    /// session goes on.
    fn checkpoint<'a>(&'a mut self, _dir: &'a Path, _shared: usize) -> BoxFuture<'a, Result<usize, BackendError>> {
        Box::pin(std::future::ready(Err(no_checkpoints())))
    }

    /// Ends the instance and removes everything that was created for it.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>>;
}

/// Name of the image of a runtime's memory before any of its code runs, from which the others are made.
pub const INITIAL_IMAGE: &str = "initial";

fn no_checkpoints() -> BackendError {
    BackendError::Input {
        subject: "checkpoint".to_owned(),
        detail: "this backend cannot save the state of sessions".to_owned(),
        source: None,
    }
}

/// Availability of an optional backend feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Support {
    /// Available.
    Yes,
    /// Not available.
    #[default]
    No,
}

/// Capabilities of a backend on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Languages that the backend runs.
    pub languages: Vec<Language>,
    /// Languages that the backend could run if the configuration allowed their image, each with that image.
    pub forbidden: BTreeMap<Language, ImageName>,
    /// Enforcement level of each limit; a limit that is absent is not enforced.
    pub limits: BTreeMap<LimitKind, EnforcementLevel>,
    /// Support for saving and restoring an instance's state.
    pub snapshot: Support,
    /// Support for forking an instance into several.
    pub fork: Support,
    /// Support for network grants that name single hosts.
    pub network_filter: Support,
    /// Languages whose programs have no network access on this backend, whatever is granted.
    pub offline: Vec<Language>,
    /// Support for counting instructions.
    pub fuel: Support,
    /// Name and version of the engine, for display.
    pub engine: Option<String>,
}

impl Capabilities {
    /// Returns the enforcement level of a limit.
    #[must_use]
    pub fn limit_enforcement(&self, kind: LimitKind) -> EnforcementLevel {
        self.limits.get(&kind).copied().unwrap_or(EnforcementLevel::Unsupported)
    }

    /// Returns the first limit in `required` that is not enforced at all.
    #[must_use]
    pub fn first_unenforced(&self, required: impl IntoIterator<Item = LimitKind>) -> Option<LimitKind> {
        required.into_iter().find(|kind| self.limit_enforcement(*kind) == EnforcementLevel::Unsupported)
    }
}

/// Reason that a backend cannot be used on this machine, with a fix.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// Missing requirement, in one line.
    pub reason: String,
    /// Action that makes the backend available, in one line.
    pub fix: String,
}

/// Maximum number of warm instances of one kind.
pub const MAX_WARM_INSTANCES: u32 = 16;

/// Requirements on a new instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Language to run.
    pub language: Language,
    /// Host resources that the guest may access.
    pub grants: Grants,
    /// Limits on the guest's resource use.
    pub limits: Limits,
    /// Processors that the guest may keep busy; `None` for all.
    #[serde(default)]
    pub cpus: Option<Cpus>,
    /// The program, for a language whose programs are WebAssembly themselves.
    #[serde(default)]
    pub program: Option<Vec<u8>>,
    /// Image to start from; `None` selects the backend's image for the language.
    pub image: Option<String>,
    /// Required isolation between guest and host.
    pub isolation: Isolation,
    /// Number of instances like this one to keep warm for later runs, on backends that support it; `None` leaves the
    /// number unchanged. At most [`MAX_WARM_INSTANCES`].
    pub warm: Option<u32>,
    /// Directories that codebox itself shows to the guest, read-only, in addition to the grants.
    pub layers: Vec<Layer>,
    /// Code with which the guest starts, on backends that load code in parts.
    pub code: CodeScope,
    /// Set if the jobs of the instance are the cells of one session: they share the state of one interpreter, which is kept
    /// from one to the next. Otherwise each job has a new interpreter.
    pub session: Option<SessionSpec>,
    /// Running container in which the jobs run; `None` makes one.
    #[serde(default)]
    pub attachment: Option<Box<Attachment>>,
}

/// Requirements on the instance of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionSpec {
    /// Directory below which the instance writes its checkpoints. It exists and has no other use.
    pub checkpoints: Option<PathBuf>,
    /// Directory of the checkpoint whose state the session starts with; `None` starts with a new interpreter.
    pub restore: Option<PathBuf>,
    /// True if the state is that in which the same session was released, so that its random numbers go on.
    pub resumes: bool,
    /// Seed of the guest's random numbers, for a cell that may be run again with the same ones; `None` for numbers of the system.
    pub seed: Option<[u8; 32]>,
}

impl InstanceSpec {
    /// Creates the spec of an instance without grants, with the default limits and image.
    #[must_use]
    pub fn bare(language: Language, isolation: Isolation) -> Self {
        Self {
            language,
            grants: Grants::none(),
            limits: Limits::default(),
            cpus: None,
            program: None,
            image: None,
            isolation,
            warm: None,
            layers: Vec::new(),
            code: CodeScope::default(),
            session: None,
            attachment: None,
        }
    }
}

/// Directory that codebox made for guests, such as one with packages.
///
/// A layer is not a grant, and it is read-only whatever is granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// Path on this machine.
    pub host: PathBuf,
    /// Path in the guest.
    pub guest: GuestPath,
}

/// Guest path of a Python job's packages; on `sys.path` after the interpreter's own modules, as `site-packages` is.
pub const PYTHON_PACKAGES: &str = "/usr/local/lib/codebox/site-packages";

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

use crate::grants::Grants;
use crate::isolation::Isolation;
use crate::job::Job;
use crate::language::Language;
use crate::limits::{Held, LimitKind, Limits};
use crate::report::RunReport;

mod cancel;
mod error;
mod io;

pub use cancel::{CancelToken, Cancelled, OnCancel};
pub use error::{BackendError, BoxedError, Written};
pub use io::{ExecIo, OutputSink, WriteSink};

/// A boxed future, so that the traits here can be used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to run jobs.
///
/// One run is `open`, `exec`, `close`; a session keeps the instance. What is optional is announced by
/// `probe`; a backend is never asked for what it did not announce.
pub trait Backend: Send + Sync {
    /// The backend's name.
    fn id(&self) -> BackendId;

    /// Says what the backend can do here, or what is missing and how to get it.
    ///
    /// Cheap, and starts nothing: no download, no compilation, no virtual machine.
    fn probe(&self) -> BoxFuture<'_, Result<Capabilities, Unavailable>>;

    /// Makes an instance that holds exactly the grants and limits of `spec`.
    fn open<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<Box<dyn Instance>, BackendError>>;
}

/// A live guest environment.
///
/// Dropping one only kills it; [`Instance::close`] is the good way to end it.
pub trait Instance: Send {
    /// Runs `job`, streaming its output to `io` as it comes.
    ///
    /// Whatever the guest did is a report. An error means that it cannot be said what the guest did.
    /// Dropping the future kills the guest.
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>>;

    /// Ends the instance and removes everything that was made for it.
    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>>;
}

/// The name of a backend, such as `wasm` or `podman`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
    /// A name known when codebox was built.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A name that was read, say from a report of another process.
    #[must_use]
    pub const fn read(name: String) -> Self {
        Self(Cow::Owned(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a backend has an optional power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Support {
    /// It has.
    Yes,
    /// It has not.
    #[default]
    No,
}

/// What a backend can do on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The languages it runs.
    pub languages: Vec<Language>,
    /// What it puts between guest and host.
    pub isolation: Isolation,
    /// How well it holds each limit; what is not named is not held.
    pub limits: BTreeMap<LimitKind, Held>,
    /// Whether an instance's state can be saved and restored.
    pub snapshot: Support,
    /// Whether an instance can be split into several.
    pub fork: Support,
    /// Whether network grants can name single hosts.
    pub network_filter: Support,
    /// Of the languages those whose programs have no network at all here, whatever is granted.
    pub offline: Vec<Language>,
    /// Whether instructions are counted.
    pub fuel: Support,
    /// The engine and its version, for people.
    pub engine: Option<String>,
}

impl Capabilities {
    /// How well a limit is held.
    #[must_use]
    pub fn holds(&self, kind: LimitKind) -> Held {
        self.limits.get(&kind).copied().unwrap_or(Held::Unsupported)
    }

    /// The first of `required` that is not held at all.
    #[must_use]
    pub fn first_unheld(&self, required: impl IntoIterator<Item = LimitKind>) -> Option<LimitKind> {
        required.into_iter().find(|kind| self.holds(*kind) == Held::Unsupported)
    }
}

/// Why a backend cannot be used here, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Unavailable {
    /// What is missing, in one line.
    pub reason: String,
    /// What to do, in one line.
    pub fix: String,
}

/// Most instances that are kept ready of one kind.
pub const MOST_WARM: u32 = 16;

/// What an instance must be able to run, and hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceSpec {
    /// The language.
    pub language: Language,
    /// What the guest may touch.
    pub grants: Grants,
    /// How much it may use.
    pub limits: Limits,
    /// The image to start from, or `None` for the one that fits.
    pub image: Option<String>,
    /// What must stand between guest and host.
    pub isolation: Isolation,
    /// How many instances like this one are to be ready for later, where a backend can have some ready; `None` leaves
    /// that as it is. At most [`MOST_WARM`].
    pub warm: Option<u32>,
}

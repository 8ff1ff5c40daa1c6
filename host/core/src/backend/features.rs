//! Optional features of backends, each a trait that [`Backend`](super::Backend) announces.

use super::{BackendError, BoxFuture, InstanceSpec};
use crate::image::ImageName;
use crate::progress::Progress;

/// Store of images that a backend's guests start from.
pub trait ImageStore: Send + Sync {
    /// Lists the images in the store.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer.
    fn list(&self) -> BoxFuture<'_, Result<Vec<LocalImage>, BackendError>>;

    /// Returns the name of the image from which an instance would start.
    ///
    /// # Errors
    /// Returns an error if the name is invalid, or if the language has no image.
    fn image_name(&self, spec: &InstanceSpec) -> Result<ImageName, BackendError>;

    /// Returns the id of the image from which an instance would start. The content of an image never changes.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer or does not have the image.
    fn image_id<'a>(&'a self, spec: &'a InstanceSpec) -> BoxFuture<'a, Result<String, BackendError>>;

    /// Pulls an image, even if the store has it.
    ///
    /// # Errors
    /// Returns an error if the engine or the registry fails.
    fn pull<'a>(&'a self, name: &'a ImageName, progress: &'a dyn Progress) -> BoxFuture<'a, Result<(), BackendError>>;

    /// Pulls the image from which an instance would start, unless the store has it.
    ///
    /// # Errors
    /// Returns an error if the engine or the registry fails.
    fn ensure<'a>(
        &'a self,
        spec: &'a InstanceSpec,
        progress: &'a dyn Progress,
    ) -> BoxFuture<'a, Result<(), BackendError>>;
}

/// Image in a backend's store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalImage {
    /// Names of the image.
    pub names: Vec<String>,
    /// Digest of the image.
    pub id: String,
    /// Size on disk in bytes.
    pub size: u64,
}

/// Collector of the resources that killed processes of codebox left behind.
pub trait LeftoverCollector: Send + Sync {
    /// Finds the leftovers of killed processes, and removes them if `sweep` is true.
    fn sweep(&self, sweep: Sweep) -> BoxFuture<'_, Leftovers>;
}

/// Treatment of leftovers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Leftovers are removed.
    Remove,
    /// Leftovers are only listed.
    DryRun,
}

/// Result of a search for leftovers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    /// Leftovers that were found.
    pub found: Vec<Leftover>,
    /// Engines that should have answered but did not, with the reasons.
    pub unreachable: Vec<(String, String)>,
}

/// Resource that a killed process of codebox left behind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leftover {
    /// Kind of the leftover, such as "container".
    pub kind: String,
    /// Name of the leftover.
    pub name: String,
    /// Location: the name of an engine, or "this machine".
    pub place: String,
    /// Reason that the leftover could not be removed.
    pub kept: Option<String>,
}

/// Pool of warm instances, kept by a process of its own.
pub trait WarmPool: Send + Sync {
    /// Runs the pool in this process until no instances are needed. `request` is the request of the process that
    /// started this one.
    ///
    /// # Errors
    /// Returns an error if the engine does not answer, or the request is invalid.
    fn serve<'a>(&'a self, request: &'a str) -> BoxFuture<'a, Result<(), BackendError>>;

    /// Ends all pools of this user.
    ///
    /// # Errors
    /// Returns an error if the pools cannot be reached.
    fn stop_all(&self) -> BoxFuture<'_, Result<(), BackendError>>;
}

/// Result of checking a backend's installation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// Subject of the check, such as "engine podman".
    pub subject: String,
    /// Findings, the state of the backend itself first.
    pub findings: Vec<Finding>,
}

/// One finding of a check: a description, and the remedy if it is a problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Description, in one line.
    pub detail: String,
    /// Remedy of a problem, in one line; `None` if all is well.
    pub fix: Option<String>,
}

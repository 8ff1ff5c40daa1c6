//! Errors of npm packages. Each names the object and, if one exists, the fix.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::integrity::{Integrity, ParseIntegrityError};
use super::spec_error::ParseNpmSpecError;
use super::tree::NpmTreeError;
use crate::error::{Cause, SettingsError, UnpackError};

/// Error installing npm packages. Complete entries of the store are unchanged.
///
/// The addresses in these errors never carry credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpmError {
    /// The spec does not name a package.
    #[error(transparent)]
    Spec(#[from] ParseNpmSpecError),
    /// The user's settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An `.npmrc` cannot be read.
    #[error("cannot use npm configuration file {path:?}")]
    ConfigFile {
        path: PathBuf,
        #[source]
        source: Cause,
    },
    /// The lock cannot be used.
    #[error(transparent)]
    Lock(#[from] NpmTreeError),
    /// The registry does not know the name.
    #[error("npm package {name} is not in registry {registry}{}", suggestion(.similar_names))]
    NotFound { name: String, registry: String, similar_names: Vec<String> },
    /// The package has no such version.
    #[error("npm package {name} has no version {wanted} (its latest is {latest})")]
    NoVersion { name: String, wanted: String, latest: String },
    /// The user has disabled network access, and a required object is not in the store.
    #[error("{what} is not cached and network access is disabled: enable it once (UV_OFFLINE, or npm's `offline`)")]
    Offline { what: String },
    /// The registry did not answer.
    #[error("cannot reach npm registry {registry}")]
    Unreachable {
        registry: String,
        #[source]
        source: Cause,
    },
    /// The registry rejects the credentials, or denies access regardless of credentials.
    #[error("npm registry {registry} denies access to {what}: check its _authToken in ~/.npmrc")]
    Denied { registry: String, what: String },
    /// The registry sent an unusable response.
    #[error("unusable response from npm registry {registry} for {what}: {detail}")]
    InvalidResponse { registry: String, what: String, detail: String },
    /// The registry refers to an address that is not allowed.
    #[error("npm registry {registry} refers to {address}, which is not allowed: {reason}")]
    ForbiddenAddress { registry: String, address: String, reason: &'static str },
    /// The time limit was exceeded.
    #[error("timed out installing npm packages after {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The archive's digest differs from the expected one.
    #[error("integrity mismatch for npm package {package}: expected {expected}, found {found}")]
    WrongIntegrity { package: String, expected: Integrity, found: Integrity },
    /// The registry lists no digest for the package.
    #[error("cannot verify npm package {package}: integrity hash is missing")]
    NoIntegrity {
        package: String,
        #[source]
        source: Option<ParseIntegrityError>,
    },
    /// The archive cannot be unpacked.
    #[error("cannot unpack npm package {package}")]
    Archive {
        package: String,
        #[source]
        source: UnpackError,
    },
    /// A package depends on something that is not in a registry.
    #[error("npm package {package} requires {dependency} from {wanted:?}: only names and versions are supported")]
    UnsupportedDependency { package: String, dependency: String, wanted: String },
    /// A package is for other systems.
    #[error("npm package {package} does not support the platform of the container (linux)")]
    System { package: String },
    /// Two requested packages cannot be installed together.
    #[error("npm package {package} requires peer {peer} {wanted}, but {found} is requested")]
    Peer { package: String, peer: String, wanted: String, found: String },
    /// One package was requested in several versions.
    #[error("npm package {name} is requested as {}: only one version can be installed", .wanted.join(" and as "))]
    ConflictingRequests { name: String, wanted: Vec<String> },
    /// A limit was exceeded.
    #[error("npm packages require more than {allowed} {what}")]
    TooMany { what: &'static str, allowed: u64 },
    /// The HTTP client cannot be created.
    #[error("cannot create HTTP client")]
    Client(#[source] Cause),
    /// A file cannot be read or written.
    #[error("cannot use {path:?}")]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl NpmError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("; similar names: {}", names.join(", ")),
    }
}

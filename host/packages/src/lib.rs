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
//! configuration directories (only for [`ConfigFiles::OfUser`]) and the temporary directory.

#![forbid(unsafe_code)]

mod condition;
mod disk;
mod error;
mod fetch;
mod house;
mod listed;
mod lock;
mod metadata;
mod npm;
mod pin;
mod progress;
mod reach;
mod requirement;
mod resolve;
mod settings;
mod source;
mod turns;
mod unpack;

pub use error::{FetchError, SettingsError, UnpackError};
pub use fetch::fetch_wheel;
pub use house::{BuildPlace, Environment, House, HouseError, ImageChoice, Kept, Pruned, Unpacked, Workbench};
pub use listed::{
    LineError, ListedRequirements, MOST_REQUIREMENTS, ScriptMetadata, is_among, requirements_of_file, script_metadata,
};
pub use lock::{Lock, LockError};
pub use npm::{
    BadIntegrity, BadNpmSpec, BadTree, Integrity, Native, NativePackage, NpmEnvironment, NpmError, NpmFiles, NpmKept,
    NpmName, NpmPackage, NpmSettings, NpmSpec, NpmStore, NpmTree, node_module, npm_environment, unpack_tarball,
};
pub use pin::{NotASha256, Pin, Sha256};
pub use progress::{Progress, Silent};
pub use requirement::{Requirement, RequirementError};
pub use resolve::{
    BuiltIn, Decision, Image, Index, ResolveError, Resolved, Sources, Target, Wheel, built_in_of, native,
};
pub use settings::{ConfigFiles, IndexSettings};
pub use source::{BadBuildSystem, BuildSystem, Sdist};
pub use unpack::{UnpackLimits, unpack_wheel, unpack_wheel_within};

/// Returns the METADATA of the wheel in a file; for fuzzing.
#[doc(hidden)]
#[must_use]
pub fn metadata_in_wheel(wheel: &std::path::Path) -> Option<Vec<u8>> {
    metadata::in_file(wheel)
}

//! Errors of settings, downloads and unpacking. Each names the object and, if one exists, the fix.

use std::io;
use std::path::PathBuf;

#[cfg(feature = "index")]
use crate::pin::Sha256;

/// Cause from an underlying library, kept for its text.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error reading the user's index settings.
#[cfg(feature = "index")]
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// An environment variable cannot be parsed as the expected type. Its value is left out: it may hold a password.
    #[error("invalid value of {name}: expected {expected}")]
    Variable { name: &'static str, expected: &'static str },
    /// A uv configuration file cannot be read.
    #[error("cannot use uv configuration file")]
    File(#[source] Cause),
    /// `SSL_CERT_FILE` does not name a usable certificate bundle.
    #[error("cannot use SSL_CERT_FILE {path:?}")]
    Certificates {
        path: PathBuf,
        #[source]
        source: Cause,
    },
}

/// Error fetching a wheel. Every variant leaves the disk unchanged.
///
/// The index addresses in these errors never carry credentials.
#[cfg(feature = "index")]
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The pin's name is not a package name.
    #[error("invalid package name {0:?}")]
    Name(String),
    /// The user's settings forbid the network, and no local source has the file.
    #[error(
        "{package} is not cached and network access is disabled (UV_OFFLINE, or `offline` in uv.toml): enable it once"
    )]
    Offline { package: String },
    /// The index did not answer.
    #[error(
        "cannot reach package index {index}: connect to the network once, or set UV_DEFAULT_INDEX to a reachable index"
    )]
    Unreachable {
        index: String,
        #[source]
        source: Cause,
    },
    /// The index rejects the credentials, or denies access regardless of credentials.
    #[error("package index {index} denies access to {package}: check the credentials in its address or in netrc")]
    Denied { index: String, package: String },
    /// The index sent an unusable response.
    #[error("unusable response from package index {index} for {package}")]
    InvalidResponse {
        index: String,
        package: String,
        #[source]
        source: Cause,
    },
    /// Every index answered, and no index has the package.
    #[error("{package} not found in any package index ({searched}): set UV_DEFAULT_INDEX to an index that has it")]
    NotFound { package: String, searched: String },
    /// The index serves another file under this name and version.
    #[error("hash mismatch for {file} from {index}: expected sha256 {expected}, found {found}")]
    WrongHash { file: String, index: String, expected: Sha256, found: Sha256 },
    /// The file is longer or shorter than pinned.
    #[error("size mismatch for {file} from {index}: expected {expected} bytes, found {found}")]
    WrongSize {
        file: String,
        index: String,
        expected: u64,
        /// Bytes counted before the transfer ended.
        found: u64,
    },
    /// The HTTP client cannot be created.
    #[error("cannot create HTTP client")]
    Client(#[source] Cause),
    /// The file cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Error unpacking a wheel. Every variant leaves the destination unchanged.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The wheel cannot be opened.
    #[error("cannot open wheel {path:?}")]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is not a zip archive, or is a damaged one.
    #[error("{path:?} is not a valid zip archive")]
    Archive {
        path: PathBuf,
        #[source]
        source: Cause,
    },
    /// A member's name could escape the destination, or readers interpret it differently.
    #[error("archive member {0:?} has a name that is not allowed")]
    Name(String),
    /// Two members have the same name.
    #[error("archive member {0:?} occurs twice")]
    Duplicate(String),
    /// A member is neither a file nor a directory, but a link or a device, for example.
    #[error("archive member {0:?} is neither a file nor a directory")]
    Kind(String),
    /// The archive has more members than allowed.
    #[error("archive has {found} members, the maximum is {allowed}")]
    TooMany { found: usize, allowed: usize },
    /// The members unpack to more bytes than allowed, or than the archive itself declares.
    #[error("archive member {member:?} unpacks to more than the {allowed} bytes allowed")]
    TooLarge { member: String, allowed: u64 },
    /// A selected member is missing from the archive.
    #[error("archive has no member {0:?}")]
    Missing(String),
    /// A member's data cannot be read.
    #[error("cannot unpack archive member {member:?}")]
    Member {
        member: String,
        #[source]
        source: io::Error,
    },
    /// The destination exists and is not an empty directory.
    #[error("destination {0:?} is not an empty directory")]
    Occupied(PathBuf),
    /// The destination cannot be written.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

//! What can go wrong, each naming the object and, where there is one, the fix.

use std::io;
use std::path::PathBuf;

use crate::pin::Sha256;

/// A cause from the libraries beneath, kept for its text.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the user's index settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// An environment variable that cannot be read as what it should be. Its value is left out: it may hold a password.
    #[error("environment variable {name} does not hold {expected}")]
    Variable { name: &'static str, expected: &'static str },
    /// A uv configuration file that cannot be read.
    #[error("uv configuration file cannot be used")]
    File(#[source] Cause),
    /// `SSL_CERT_FILE` names no usable bundle of certificates.
    #[error("SSL_CERT_FILE {path:?} cannot be used")]
    Certificates {
        path: PathBuf,
        #[source]
        source: Cause,
    },
}

/// Why a wheel was not fetched. Nothing is left behind in any of these cases.
///
/// Index addresses in here never carry credentials.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The pin's name is not a package name.
    #[error("package name {0:?} is not valid")]
    Name(String),
    /// The user's settings forbid the network, and no local source has the file.
    #[error(
        "{package} is not here and network use is switched off (UV_OFFLINE, or `offline` in uv.toml): allow it once"
    )]
    Offline { package: String },
    /// The index did not answer.
    #[error(
        "cannot reach package index {index}: connect to the network once, or set UV_DEFAULT_INDEX to an index within reach"
    )]
    Unreachable {
        index: String,
        #[source]
        source: Cause,
    },
    /// The index wants other credentials, or none will do.
    #[error("package index {index} denies access to {package}: check the credentials in its address or in netrc")]
    Denied { index: String, package: String },
    /// The index answered with something that cannot be used.
    #[error("package index {index} gave no usable answer for {package}")]
    Answer {
        index: String,
        package: String,
        #[source]
        source: Cause,
    },
    /// Every index answered, and none has it.
    #[error(
        "{package} is in none of the package indexes searched ({searched}): set UV_DEFAULT_INDEX to one that has it"
    )]
    NotFound { package: String, searched: String },
    /// What the index has under this name and version is another file.
    #[error("{file} from {index} has sha256 {found} where {expected} is expected")]
    WrongHash { file: String, index: String, expected: Sha256, found: Sha256 },
    /// The file is longer or shorter than pinned.
    #[error("{file} from {index} has {found} bytes where {expected} are expected")]
    WrongSize {
        file: String,
        index: String,
        expected: u64,
        /// As far as it was counted.
        found: u64,
    },
    /// The HTTP client could not be made.
    #[error("HTTP client cannot be set up")]
    Client(#[source] Cause),
    /// The file could not be written.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Why a wheel was not unpacked. The destination is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The wheel cannot be opened.
    #[error("cannot open wheel {path:?}")]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Not a zip archive, or a damaged one.
    #[error("{path:?} is not a sound zip archive")]
    Archive {
        path: PathBuf,
        #[source]
        source: Cause,
    },
    /// A member's name could lead out of the destination or means different things to different readers.
    #[error("archive member {0:?} has a name that is not allowed")]
    Name(String),
    /// Two members of one name.
    #[error("archive member {0:?} occurs twice")]
    Duplicate(String),
    /// A link, a device or the like.
    #[error("archive member {0:?} is neither a file nor a directory")]
    Kind(String),
    /// More members than allowed.
    #[error("archive has {found} members where {allowed} are allowed")]
    TooMany { found: usize, allowed: usize },
    /// More bytes than allowed, or than the archive itself says.
    #[error("archive member {member:?} unpacks to more than the {allowed} bytes allowed")]
    TooLarge { member: String, allowed: u64 },
    /// A wanted member is not there.
    #[error("archive has no member {0:?}")]
    Missing(String),
    /// A member's data cannot be read back.
    #[error("archive member {member:?} cannot be unpacked")]
    Member {
        member: String,
        #[source]
        source: io::Error,
    },
    /// The destination exists and is not an empty directory.
    #[error("destination {0:?} is not an empty directory")]
    Occupied(PathBuf),
    /// The destination could not be written.
    #[error("cannot write {path:?}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

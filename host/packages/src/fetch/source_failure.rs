//! Reasons why a source does not supply a file.

use uv_client::{Error as ClientError, ErrorKind, FlatIndexError};

use super::package;
use crate::error::{Cause, FetchError};
use crate::pin::Pin;
use crate::settings::IndexSettings;

/// The reason of one source.
pub(super) enum SourceFailure {
    /// The source does not have the package.
    NoPackage,
    /// The source is on the network, and the user has disabled network access.
    Offline,
    /// The source rejects the credentials.
    Denied,
    /// The source did not answer.
    Unreachable(Cause),
    /// The source sent an unusable response.
    InvalidResponse(Cause),
}

impl SourceFailure {
    pub(super) fn from_client(error: ClientError) -> Self {
        match error.kind() {
            ErrorKind::RemotePackageNotFound(_) | ErrorKind::LocalPackageNotFound(_) | ErrorKind::NoIndex(_) => {
                Self::NoPackage
            }
            ErrorKind::Offline(_) => Self::Offline,
            // An error without a status means that there was no response.
            ErrorKind::WrappedReqwestError(_, cause) if cause.status().is_none() => Self::Unreachable(error.into()),
            _ => Self::InvalidResponse(error.into()),
        }
    }

    pub(super) fn from_flat(error: FlatIndexError) -> Self {
        match error {
            FlatIndexError::FindLinksUrl(_, error) => Self::from_client(error),
            error => Self::InvalidResponse(error.into()),
        }
    }

    /// Converts this reason to the error of the whole fetch.
    pub(super) fn into_fetch_error(self, index: String, pin: &Pin, settings: &IndexSettings) -> FetchError {
        let package = package(pin);
        match self {
            Self::NoPackage => not_found(pin, settings),
            Self::Offline => FetchError::Offline { package },
            Self::Denied => FetchError::Denied { index, package },
            Self::Unreachable(source) => FetchError::Unreachable { index, source },
            Self::InvalidResponse(source) => FetchError::InvalidResponse { index, package, source },
        }
    }

    /// Returns the rank of this reason by how much the user can do about it.
    fn rank(&self) -> u8 {
        match self {
            Self::NoPackage => 0,
            // The usual case is a configured folder that does not exist.
            Self::InvalidResponse(_) => 1,
            Self::Denied => 2,
            Self::Unreachable(_) => 3,
            Self::Offline => 4,
        }
    }
}

/// Returns the error to show when no source has the file: the first one of the highest weight.
pub(super) fn most_relevant_error(
    failures: Vec<(String, SourceFailure)>,
    pin: &Pin,
    settings: &IndexSettings,
) -> FetchError {
    let most_relevant = failures.into_iter().reduce(|best, next| match next.1.rank() > best.1.rank() {
        true => next,
        false => best,
    });
    match most_relevant {
        Some((index, source_failure)) => source_failure.into_fetch_error(index, pin, settings),
        None => not_found(pin, settings),
    }
}

pub(super) fn not_found(pin: &Pin, settings: &IndexSettings) -> FetchError {
    let sources = settings.sources();
    FetchError::NotFound {
        package: package(pin),
        searched: match sources.is_empty() {
            true => "no index is configured: UV_NO_INDEX, PIP_NO_INDEX or `no-index` is set".to_owned(),
            false => sources.join(", "),
        },
    }
}

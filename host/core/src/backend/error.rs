use std::io;

use thiserror::Error;

use super::{BackendId, Unavailable};
use crate::limits::LimitKind;
use crate::outcome::ResultKind;
use crate::report::Captured;

/// The error that lies behind another one.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a backend cannot say what a guest did.
///
/// Never about what the guest itself did; that is a [`RunReport`](crate::RunReport).
#[derive(Debug, Error)]
pub enum BackendError {
    /// The backend cannot be used here.
    #[error("{backend} is not available: {why}")]
    Unavailable {
        /// The backend.
        backend: BackendId,
        /// What is missing and how to get it.
        #[source]
        why: Unavailable,
    },
    /// A guest runtime, or an image of it, is not installed.
    #[error("{runtime} is not installed")]
    RuntimeMissing {
        /// The runtime or image.
        runtime: String,
        /// What getting it ran into, if that was tried.
        #[source]
        source: Option<BoxedError>,
    },
    /// A guest runtime or image is damaged, or not what it should be.
    #[error("{runtime} is damaged: {detail}")]
    RuntimeCorrupt {
        /// The runtime or image.
        runtime: String,
        /// What is wrong with it.
        detail: String,
        /// What showed it.
        #[source]
        source: Option<BoxedError>,
    },
    /// A grant cannot be given.
    #[error("cannot grant {subject}: {detail}")]
    Grant {
        /// What was to be granted.
        subject: String,
        /// Why it cannot be.
        detail: String,
        /// What showed it.
        #[source]
        source: Option<BoxedError>,
    },
    /// The job asks for something that makes no sense to this backend.
    #[error("cannot use {subject}: {detail}")]
    Input {
        /// The part of the job.
        subject: String,
        /// What is wrong with it.
        detail: String,
        /// What showed it.
        #[source]
        source: Option<BoxedError>,
    },
    /// A limit that was set cannot be held here.
    #[error("{backend} cannot hold the {limit} limit")]
    Limit {
        /// The backend.
        backend: BackendId,
        /// The limit.
        limit: LimitKind,
    },
    /// The host's files or streams failed.
    #[error("cannot {action}")]
    Io {
        /// What was tried: "create the working directory".
        action: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The engine failed.
    #[error("the engine failed to {action}")]
    Engine {
        /// What was tried: "compile python".
        action: String,
        /// What the engine said.
        #[source]
        source: BoxedError,
    },
    /// The engine went away, or did not answer in time.
    #[error("{backend} was lost while it was to {action}")]
    EngineLost {
        /// The backend.
        backend: BackendId,
        /// What was asked of it: "start a container".
        action: String,
        /// What the connection said.
        #[source]
        source: BoxedError,
    },
    /// A container image is not there.
    #[error("{backend} does not have the image {image}")]
    ImageMissing {
        /// The backend.
        backend: BackendId,
        /// The image's full name.
        image: String,
    },
    /// A container image cannot be used, or not be fetched.
    #[error("cannot use the image {image}: {detail}")]
    Image {
        /// The image's full name.
        image: String,
        /// Why.
        detail: String,
    },
    /// Another one, met while a job ran.
    #[error("{error}")]
    MidJob {
        /// The error.
        #[source]
        error: Box<Self>,
        /// What the job had written until then.
        written: Box<Written>,
    },
    /// The run was stopped from outside before it could be said how the guest ended.
    #[error("interrupted while {during}")]
    Interrupted {
        /// What was going on.
        during: String,
    },
}

/// What a job had written when it was lost sight of; there may have been more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
}

impl BackendError {
    /// The one word for it, which also decides the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::Unavailable { .. } | Self::RuntimeMissing { .. } => ResultKind::EngineUnavailable,
            Self::RuntimeCorrupt { .. } => ResultKind::ImageError,
            Self::Grant { .. } => ResultKind::Denied,
            Self::Input { .. } | Self::Limit { .. } => ResultKind::InvalidRequest,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull
                | io::ErrorKind::QuotaExceeded
                | io::ErrorKind::OutOfMemory
                | io::ErrorKind::ResourceBusy => ResultKind::Busy,
                _ => ResultKind::InternalError,
            },
            Self::Engine { .. } => ResultKind::InternalError,
            Self::EngineLost { .. } => ResultKind::EngineLost,
            Self::ImageMissing { .. } | Self::Image { .. } => ResultKind::ImageError,
            Self::MidJob { error, .. } => error.kind(),
            Self::Interrupted { .. } => ResultKind::Interrupted,
        }
    }

    /// What the job had written, if it had begun.
    #[must_use]
    pub fn written(&self) -> Option<&Written> {
        match self {
            Self::MidJob { written, .. } => Some(written),
            _ => None,
        }
    }

    /// An I/O failure while doing `action`.
    #[must_use]
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }

    /// An engine failure while doing `action`.
    #[must_use]
    pub fn engine(action: impl Into<String>, source: impl Into<BoxedError>) -> Self {
        Self::Engine { action: action.into(), source: source.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::outcome::exit;

    #[test]
    fn only_grants_are_denials() {
        let denied = BackendError::Grant {
            subject: "/proc".to_owned(),
            detail: "it belongs to the kernel".to_owned(),
            source: None,
        };
        assert_eq!(denied.kind().failure_status(), exit::DENIED);
        assert_eq!(denied.to_string(), "cannot grant /proc: it belongs to the kernel");
        let failed = BackendError::io("read the image", io::ErrorKind::NotFound.into());
        assert_eq!(failed.kind().failure_status(), exit::FAILURE);
        assert!(failed.source().is_some());
    }

    #[test]
    fn an_error_in_the_middle_of_a_job_is_the_same_error_and_what_was_written() {
        let lost = || BackendError::EngineLost {
            backend: BackendId::new("podman"),
            action: "carry its streams".to_owned(),
            source: "reset".into(),
        };
        let written = Written { stdout: Captured::whole("so far"), ..Written::default() };
        let error = BackendError::MidJob { error: Box::new(lost()), written: Box::new(written.clone()) };
        assert_eq!((error.kind(), error.to_string()), (lost().kind(), lost().to_string()));
        assert_eq!((error.written(), lost().written()), (Some(&written), None));
    }
}

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Unavailable;
use crate::backend_id::BackendId;
use crate::limits::{ByteSize, LimitKind};
use crate::outcome::ResultKind;
use crate::report::CapturedOutput;

/// Underlying cause of another error.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Error of a backend that cannot determine what a guest did.
///
/// Failures of the guest itself are reported in a [`RunReport`](crate::RunReport).
#[derive(Debug, Error)]
pub enum BackendError {
    /// A backend that cannot be used on this machine.
    #[error("{backend} is not available: {why}")]
    Unavailable {
        /// The backend.
        backend: BackendId,
        /// Missing requirement and its fix.
        #[source]
        why: Unavailable,
    },
    /// A guest runtime, or an image of it, that is not installed.
    #[error("{runtime} is not installed")]
    RuntimeMissing {
        /// The runtime or image.
        runtime: String,
        /// Error of an attempt to obtain the runtime, if one was made.
        #[source]
        source: Option<BoxedError>,
    },
    /// A guest runtime or image that is damaged, or that is not the expected one.
    #[error("{runtime} is damaged: {detail}")]
    RuntimeCorrupt {
        /// The runtime or image.
        runtime: String,
        /// Description of the problem.
        detail: String,
        /// Underlying error.
        #[source]
        source: Option<BoxedError>,
    },
    /// A grant that cannot be given.
    #[error("cannot grant {subject}: {detail}")]
    Grant {
        /// Resource of the grant.
        subject: String,
        /// Reason that the grant cannot be given.
        detail: String,
        /// Underlying error.
        #[source]
        source: Option<BoxedError>,
    },
    /// A part of the job that is invalid for this backend.
    #[error("cannot use {subject}: {detail}")]
    Input {
        /// The part of the job.
        subject: String,
        /// Description of the problem.
        detail: String,
        /// Underlying error.
        #[source]
        source: Option<BoxedError>,
    },
    /// A limit that was set and that this backend cannot enforce.
    #[error("{backend} cannot enforce the {limit} limit")]
    Limit {
        /// The backend.
        backend: BackendId,
        /// The limit.
        limit: LimitKind,
    },
    /// A limit below what the guest needs to start.
    #[error("the {limit} limit is too low: the guest starts with {needed}")]
    LimitTooLow {
        /// The limit.
        limit: LimitKind,
        /// Lowest value that can be used.
        needed: ByteSize,
    },
    /// A failure of the host's files or streams.
    #[error("cannot {action}")]
    Io {
        /// Attempted action, such as "create the working directory".
        action: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A failure of the engine.
    #[error("the engine failed to {action}")]
    Engine {
        /// Attempted action, such as "compile python".
        action: String,
        /// Error of the engine.
        #[source]
        source: BoxedError,
    },
    /// An engine that disappeared or did not answer in time.
    #[error("cannot {action}: lost connection to {backend}")]
    EngineLost {
        /// The backend.
        backend: BackendId,
        /// Requested action, such as "start a container".
        action: String,
        /// Error of the connection.
        #[source]
        source: BoxedError,
    },
    /// A container image that the engine does not have.
    #[error("image {image} not found in {backend}")]
    ImageMissing {
        /// The backend.
        backend: BackendId,
        /// The image's full name.
        image: String,
    },
    /// A container image that cannot be used or fetched.
    #[error("cannot use image {image}: {detail}")]
    Image {
        /// The image's full name.
        image: String,
        /// Reason that the image cannot be used.
        detail: String,
    },
    /// An error of a backend in another process.
    #[error("{message}")]
    Remote {
        /// Result kind of the error.
        kind: ResultKind,
        /// The error with its causes, in one line.
        message: String,
        /// Remedy, in one line.
        fix: Option<String>,
    },
    /// Another error, which occurred while a job ran.
    #[error("{error}")]
    DuringJob {
        /// The error.
        #[source]
        error: Box<Self>,
        /// Output of the job up to the error.
        partial_output: Box<PartialOutput>,
    },
    /// An interruption from outside before the outcome of the guest was known.
    #[error("interrupted while {during}")]
    Interrupted {
        /// Interrupted activity.
        during: String,
    },
}

/// Output of a job up to the point where contact with it was lost; the job may have written more.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PartialOutput {
    /// Standard output.
    pub stdout: CapturedOutput,
    /// Standard error.
    pub stderr: CapturedOutput,
}

impl BackendError {
    /// Returns the result kind of the error, which also determines the exit status.
    #[must_use]
    pub fn kind(&self) -> ResultKind {
        match self {
            Self::Unavailable { .. } | Self::RuntimeMissing { .. } => ResultKind::EngineUnavailable,
            Self::RuntimeCorrupt { .. } => ResultKind::ImageError,
            Self::Grant { .. } => ResultKind::Denied,
            Self::Input { .. } | Self::Limit { .. } | Self::LimitTooLow { .. } => ResultKind::InvalidRequest,
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
            Self::Remote { kind, .. } => *kind,
            Self::DuringJob { error, .. } => error.kind(),
            Self::Interrupted { .. } => ResultKind::Interrupted,
        }
    }

    /// Returns the remedy, in one line, if there is one.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        Some(match self {
            Self::Unavailable { why, .. } => why.fix.clone(),
            Self::RuntimeMissing { runtime, .. } => format!("install it: codebox runtime install {runtime}"),
            Self::RuntimeCorrupt { runtime, .. } => format!("install it again: codebox runtime install {runtime}"),
            Self::Limit { limit, .. } => format!("remove the {limit} limit"),
            Self::LimitTooLow { limit, needed } => format!("raise the {limit} limit to {needed} or more"),
            Self::Io { .. } if self.kind() == ResultKind::Busy => {
                "free some space or memory and run it again".to_owned()
            }
            Self::Interrupted { .. } => "run it again".to_owned(),
            Self::EngineLost { .. } => "see codebox doctor, and run it again".to_owned(),
            Self::Remote { fix, .. } => return fix.clone(),
            Self::DuringJob { error, .. } => return error.fix(),
            Self::Image { .. } => "check its name, and that the engine can reach its registry".to_owned(),
            Self::ImageMissing { image, .. } => format!("pull it: codebox image pull {image}"),
            Self::Grant { .. } | Self::Input { .. } | Self::Io { .. } | Self::Engine { .. } => return None,
        })
    }

    /// Returns the output of the job, if the job had begun.
    #[must_use]
    pub fn partial_output(&self) -> Option<&PartialOutput> {
        match self {
            Self::DuringJob { partial_output, .. } => Some(partial_output),
            _ => None,
        }
    }

    /// Creates the error of an I/O failure during `action`.
    #[must_use]
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }

    /// Creates the error of an engine failure during `action`.
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
    fn maps_only_grant_errors_to_denied() {
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
    fn error_during_job_keeps_kind_and_adds_output() {
        let lost = || BackendError::EngineLost {
            backend: BackendId::new("podman"),
            action: "forward the container's streams".to_owned(),
            source: "reset".into(),
        };
        let partial_output = PartialOutput { stdout: CapturedOutput::complete("so far"), ..PartialOutput::default() };
        let error =
            BackendError::DuringJob { error: Box::new(lost()), partial_output: Box::new(partial_output.clone()) };
        assert_eq!((error.kind(), error.to_string()), (lost().kind(), lost().to_string()));
        assert_eq!((error.partial_output(), lost().partial_output()), (Some(&partial_output), None));
    }
}

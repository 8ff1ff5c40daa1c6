use std::path::{Path, PathBuf};

use codebox_core::{BackendError, BackendId, BoxedError, CapturedOutput, LimitKind, PartialOutput, Unavailable};
use thiserror::Error;

/// An error of the container backend. The failure of a job itself is never such an error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// No engine answers.
    #[error("{reason}")]
    NoEngine {
        /// The reason.
        reason: String,
        /// The action that helps.
        fix: String,
        /// True if there is an address at which an engine should answer.
        unresponsive: bool,
    },
    /// The engine did not answer, or the connection to it broke.
    #[error("cannot {doing}: lost connection to the engine")]
    Lost {
        /// The requested operation.
        doing: &'static str,
        /// The error of the connection.
        #[source]
        source: BoxedError,
    },
    /// The engine refused an operation.
    #[error("the engine cannot {doing}: {refusal}")]
    Refused {
        /// The requested operation.
        doing: &'static str,
        /// The engine's message, in one line.
        refusal: String,
    },
    /// The engine cannot start a container of this image with these grants.
    #[error("the engine cannot start a container from {image}: {refusal}")]
    Unstartable {
        /// The image.
        image: String,
        /// The engine's message, in one line.
        refusal: String,
    },
    /// The engine no longer has a container that it created.
    #[error("cannot {doing}: the container no longer exists")]
    Gone {
        /// The requested operation.
        doing: &'static str,
    },
    /// The image does not exist locally, and pulling it was not requested.
    #[error("image {0} not found")]
    NoImage(String),
    /// An image that cannot be used.
    #[error("cannot use image {name}: {why}")]
    BadImage {
        /// The name of the image.
        name: String,
        /// The reason.
        why: String,
    },
    /// A directory that cannot be granted.
    #[error("cannot grant {}: {why}", path.display())]
    Grant {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The job requires something that containers do not support.
    #[error("cannot use {subject}: {why}")]
    Input {
        /// The part of the job.
        subject: String,
        /// The reason.
        why: String,
    },
    /// A limit that cannot be enforced here.
    #[error("cannot enforce the {0} limit")]
    Limit(LimitKind),
    /// The agent violated the protocol, or ended with an error message.
    #[error("the agent in the container failed: {0}")]
    Agent(String),
    /// Another error, which occurred while a job was running.
    #[error("{error}")]
    DuringJob {
        /// The error.
        #[source]
        error: Box<Self>,
        /// The output of the job up to the error.
        partial_output: Box<PartialOutput>,
    },
    /// A file operation on the host failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

impl ContainerError {
    /// Returns a function for `map_err` on file operations.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// Returns a function for `map_err` on engine calls.
    pub(crate) fn call(doing: &'static str) -> impl FnOnce(bollard::errors::Error) -> Self {
        move |error| match error {
            // Podman answers 500 if the container disappears during the lookup.
            bollard::errors::Error::DockerResponseServerError { status_code: 404 | 500, message }
                if is_missing_container(&message) =>
            {
                Self::Gone { doing }
            }
            // Engines report refusals with these statuses only.
            bollard::errors::Error::DockerResponseServerError { status_code: 400..600, message }
            | bollard::errors::Error::DockerStreamError { error: message } => {
                Self::Refused { doing, refusal: one_line(&message) }
            }
            other => Self::Lost { doing, source: Box::new(other) },
        }
    }

    /// Returns a function for `map_err` that adds the job's output up to the error.
    pub(crate) fn mid_job([stdout, stderr]: [CapturedOutput; 2]) -> impl FnOnce(Self) -> Self {
        move |error| Self::DuringJob {
            error: Box::new(error),
            partial_output: Box::new(PartialOutput { stdout, stderr }),
        }
    }

    /// Converts a refusal because of a missing image into [`Self::NoImage`]. The image may have been removed since the
    /// lookup.
    pub(crate) fn map_missing_image(self, image: &str) -> Self {
        match self {
            Self::Refused { refusal, .. } if refusal.to_ascii_lowercase().contains("no such image") => {
                Self::NoImage(image.to_owned())
            }
            other => other,
        }
    }

    /// Converts the error into the error type of all backends.
    pub(crate) fn of(self, backend: &BackendId) -> BackendError {
        match self {
            Self::NoEngine { reason, fix, unresponsive: _ } => {
                BackendError::Unavailable { backend: backend.clone(), why: Unavailable { reason, fix } }
            }
            Self::Lost { doing, source } => {
                BackendError::EngineLost { backend: backend.clone(), action: doing.to_owned(), source }
            }
            Self::Gone { doing } => BackendError::EngineLost {
                backend: backend.clone(),
                action: doing.to_owned(),
                source: "the container no longer exists".into(),
            },
            Self::NoImage(image) => BackendError::ImageMissing { backend: backend.clone(), image },
            Self::BadImage { name, why } => BackendError::Image { image: name, detail: why },
            Self::Grant { path, why } => {
                BackendError::Grant { subject: path.display().to_string(), detail: why, source: None }
            }
            Self::Input { subject, why } => BackendError::Input { subject, detail: why, source: None },
            Self::Limit(limit) => BackendError::Limit { backend: backend.clone(), limit },
            Self::Io { doing, path, source } => {
                BackendError::Io { action: format!("{doing} {}", path.display()), source }
            }
            Self::Unstartable { image, refusal } => {
                BackendError::Image { image, detail: format!("the engine cannot start a container from it: {refusal}") }
            }
            Self::Refused { doing, refusal } => {
                BackendError::Engine { action: doing.to_owned(), source: refusal.into() }
            }
            Self::DuringJob { error, partial_output } => {
                BackendError::DuringJob { error: Box::new(error.of(backend)), partial_output }
            }
            Self::Agent(why) => BackendError::Engine {
                action: "communicate with the agent in the container".to_owned(),
                source: why.into(),
            },
        }
    }
}

/// Returns true if an engine's message reports that the container does not exist.
fn is_missing_container(refusal: &str) -> bool {
    let refusal = refusal.to_ascii_lowercase();
    refusal.contains("no such container") || refusal.contains("no container with")
}

/// Joins the lines of an engine's message into one, and drops control characters.
pub(crate) fn one_line(text: &str) -> String {
    let parts: Vec<&str> =
        text.split(|c: char| c.is_control()).map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

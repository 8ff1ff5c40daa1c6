use std::path::{Path, PathBuf};

use codebox_core::{BackendError, BackendId, BoxedError, Captured, LimitKind, Unavailable, Written};
use thiserror::Error;

/// What went wrong around a container; never what the job in it did.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// No engine answers.
    #[error("{reason}")]
    NoEngine {
        /// Why.
        reason: String,
        /// What to do.
        fix: String,
        /// Whether there is a place where one should answer.
        silent: bool,
    },
    /// The engine did not answer, or went away.
    #[error("the engine went away while it was to {doing}")]
    Lost {
        /// What was asked of it.
        doing: &'static str,
        /// What the connection said.
        #[source]
        source: BoxedError,
    },
    /// The engine answered that it cannot.
    #[error("the engine cannot {doing}: {said}")]
    Refused {
        /// What was asked of it.
        doing: &'static str,
        /// What it said, in one line.
        said: String,
    },
    /// The engine cannot start a container of this image with these grants.
    #[error("the engine cannot start a container of {image}: {said}")]
    Unstartable {
        /// The image.
        image: String,
        /// What the engine said, in one line.
        said: String,
    },
    /// The engine does not know a container any more that it made.
    #[error("the engine does not have the container any more that it was to {doing}")]
    Gone {
        /// What was asked of it.
        doing: &'static str,
    },
    /// The image is not there, and nothing was to fetch it.
    #[error("the image {0} is not there")]
    NoImage(String),
    /// An image that cannot be used.
    #[error("the image {name} cannot be used: {why}")]
    BadImage {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// A directory that cannot be granted.
    #[error("cannot grant {}: {why}", path.display())]
    Grant {
        /// The directory.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Something that the job asks for and no container gives.
    #[error("cannot use {subject}: {why}")]
    Input {
        /// The part of the job.
        subject: String,
        /// Why.
        why: String,
    },
    /// A limit that cannot be held here.
    #[error("cannot hold the {0} limit")]
    Limit(LimitKind),
    /// The agent said something that is none of its words.
    #[error("the agent in the container broke off: {0}")]
    Agent(String),
    /// Another one, met while a job ran.
    #[error("{error}")]
    MidJob {
        /// The error.
        #[source]
        error: Box<Self>,
        /// What the job had written until then.
        written: Box<Written>,
    },
    /// Host files could not be used.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

impl ContainerError {
    /// For `map_err` on file work.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// For `map_err` on calls of the engine.
    pub(crate) fn call(doing: &'static str) -> impl FnOnce(bollard::errors::Error) -> Self {
        move |error| match error {
            // Podman, where one goes while it looks: a status of its own fault.
            bollard::errors::Error::DockerResponseServerError { status_code: 404 | 500, message } if gone(&message) => {
                Self::Gone { doing }
            }
            // No engine refuses with anything else.
            bollard::errors::Error::DockerResponseServerError { status_code: 400..600, message }
            | bollard::errors::Error::DockerStreamError { error: message } => {
                Self::Refused { doing, said: one_line(&message) }
            }
            other => Self::Lost { doing, source: Box::new(other) },
        }
    }

    /// The same, of a job that had written this.
    pub(crate) fn mid_job([stdout, stderr]: [Captured; 2]) -> impl FnOnce(Self) -> Self {
        move |error| Self::MidJob { error: Box::new(error), written: Box::new(Written { stdout, stderr }) }
    }

    /// The same of a call that needs an image, which may have gone since it was looked up.
    pub(crate) fn needing(self, image: &str) -> Self {
        match self {
            Self::Refused { said, .. } if said.to_ascii_lowercase().contains("no such image") => {
                Self::NoImage(image.to_owned())
            }
            other => other,
        }
    }

    /// The same in the words that all backends share.
    pub(crate) fn of(self, backend: &BackendId) -> BackendError {
        match self {
            Self::NoEngine { reason, fix, silent: _ } => {
                BackendError::Unavailable { backend: backend.clone(), why: Unavailable { reason, fix } }
            }
            Self::Lost { doing, source } => {
                BackendError::EngineLost { backend: backend.clone(), action: doing.to_owned(), source }
            }
            Self::Gone { doing } => BackendError::EngineLost {
                backend: backend.clone(),
                action: doing.to_owned(),
                source: "it does not have the container any more".into(),
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
            Self::Unstartable { image, said } => {
                BackendError::Image { image, detail: format!("the engine cannot start a container of it so: {said}") }
            }
            Self::Refused { doing, said } => BackendError::Engine { action: doing.to_owned(), source: said.into() },
            Self::MidJob { error, written } => BackendError::MidJob { error: Box::new(error.of(backend)), written },
            Self::Agent(why) => {
                BackendError::Engine { action: "talk to the agent in the container".to_owned(), source: why.into() }
            }
        }
    }
}

/// Whether an engine says that it has no such container.
fn gone(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("no such container") || said.contains("no container with")
}

/// A message of an engine's, which may have lines and control characters.
pub(crate) fn one_line(text: &str) -> String {
    let parts: Vec<&str> =
        text.split(|c: char| c.is_control()).map(str::trim).filter(|part| !part.is_empty()).collect();
    parts.join("; ")
}

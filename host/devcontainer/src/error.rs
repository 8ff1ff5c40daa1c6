use std::io;
use std::path::PathBuf;

use codebox_core::{ResultKind, RunnerError};
use thiserror::Error;

/// Reason that a dev container cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DevContainerError {
    /// The project describes none.
    #[error("{} has no dev container", dir.display())]
    None {
        /// Directory of the project.
        dir: PathBuf,
    },
    /// The project describes several, and none is the usual one.
    #[error("{} has several dev containers: {}", dir.display(), names.join(", "))]
    Several {
        /// Directory of the project.
        dir: PathBuf,
        /// Their descriptions, relative to the directory.
        names: Vec<String>,
    },
    /// A description that cannot be read.
    #[error("cannot use {}: {source}", path.display())]
    Unreadable {
        /// The description.
        path: PathBuf,
        /// Reason.
        source: io::Error,
    },
    /// The program is not installed.
    #[error("cannot use the dev container of {}: the program devcontainer is not installed", dir.display())]
    NotInstalled {
        /// Directory of the project.
        dir: PathBuf,
    },
    /// The program cannot be started, or its answer cannot be read.
    #[error("cannot run the program devcontainer: {0}")]
    Program(String),
    /// The run was cancelled meanwhile.
    #[error("cancelled while the program devcontainer was running")]
    Cancelled,
    /// The program reports a failure.
    #[error("the program devcontainer cannot {action}: {message}")]
    Failed {
        /// Attempted action.
        action: &'static str,
        /// Its message, in one line.
        message: String,
    },
}

impl From<DevContainerError> for RunnerError {
    fn from(error: DevContainerError) -> Self {
        use DevContainerError::{Cancelled, Failed, None, NotInstalled, Program, Several, Unreadable};
        let (kind, fix) = match &error {
            None { .. } => (
                ResultKind::InvalidRequest,
                "describe it in .devcontainer/devcontainer.json, or name its file with --dev-config",
            ),
            Several { .. } => (ResultKind::InvalidRequest, "name one with --dev-config"),
            Unreadable { .. } => (ResultKind::InvalidRequest, "correct the file"),
            NotInstalled { .. } => (ResultKind::EngineUnavailable, "install it: npm install -g @devcontainers/cli"),
            Cancelled => (ResultKind::Cancelled, "run it again"),
            Program(_) => (ResultKind::InternalError, "check that devcontainer --version works"),
            Failed { .. } => (ResultKind::EngineUnavailable, "run with -v to see its output"),
        };
        Self::new(kind, error.to_string()).with_fix(fix)
    }
}

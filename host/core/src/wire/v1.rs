//! Version 1: what a run answers with, and what codebox says when it fails itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backend::Written;
use crate::outcome::ResultKind;

mod files;
mod limits;
mod network;
mod outcome;
mod output;
mod provenance;
mod run;

pub use files::{FileChanges, FileKind, OutFile, SkippedFile};
pub use limits::{Enforcement, HeldWord, LimitValue, LimitsInForce, Unlimited, Wall, WallWord};
pub use network::{NetAttempt, NetUse, NetVerdict};
pub use outcome::{LimitName, Outcome, ResultName, TrapName};
pub use output::{Partial, Truncation};
pub use provenance::{EscalatedFrom, IsolationName, Provenance, Usage};
pub use run::{Denial, DenialWord, GuestError, MimeBundle, Missing, RoleWord, RunReport};

/// The version in every report of this module.
pub const VERSION: u32 = 1;

/// What codebox prints where JSON is asked for: a report, or its own failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reply {
    /// The guest ran.
    Run(Box<RunReport>),
    /// codebox failed before it could say what the guest did.
    Failure(ErrorReport),
}

/// codebox's own failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorReport {
    /// The failure.
    pub error: Failure,
    /// What the guest had written until then, if it had begun; there may have been more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// What failed, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The one word for it.
    pub kind: ResultName,
    /// One line that names the thing.
    pub message: String,
    /// What to do about it, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The exit status of the process that prints this.
    pub exit_code: u8,
    /// Whether the same request may well succeed later.
    pub retryable: bool,
}

impl ErrorReport {
    /// The report of a failure of this kind; the kind decides the exit status.
    #[must_use]
    pub fn new(kind: ResultKind, message: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            error: Failure {
                kind: kind.into(),
                message: message.into(),
                hint,
                exit_code: kind.failure_status(),
                retryable: kind.retryable(),
            },
            partial: None,
        }
    }

    /// The same, with what the guest had written.
    #[must_use]
    pub fn with_written(self, written: &Written) -> Self {
        Self { partial: Some(written.into()), ..self }
    }
}

/// The JSON schema of [`Reply`].
#[must_use]
pub fn schema() -> Value {
    schemars::schema_for!(Reply).to_value()
}

#[cfg(test)]
mod tests;

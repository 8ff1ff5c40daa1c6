//! Version 1: the report of a run, and the report of a failure of codebox itself.

use serde::{Deserialize, Serialize};

use crate::backend::PartialOutput;
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
pub use run::{
    Denial, DenialWord, ErrorFrame, GuestError, MimeBundle, Missing, RoleWord, RunReport, SessionState, ToolCall,
};

/// Version number in every report of this module.
pub const VERSION: u32 = 1;

/// JSON output of codebox: the report of a run, or of codebox's own failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Reply {
    /// Report of a guest that ran.
    Run(Box<RunReport>),
    /// Failure of codebox before it could determine what the guest did.
    Failure(ErrorReport),
}

/// Report of codebox's own failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorReport {
    /// Failure.
    pub error: Failure,
    /// Output of the guest up to the failure, if the guest had begun; the guest may have written more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// Failure with its fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failure {
    /// Result kind of the failure.
    pub kind: ResultName,
    /// Message in one line that names the affected object.
    pub message: String,
    /// Fix, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Exit status of the process that prints the report.
    pub exit_code: u8,
    /// True if the same request may succeed later.
    pub retryable: bool,
}

impl ErrorReport {
    /// Creates the report of a failure of this kind; the kind determines the exit status.
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

    /// Returns the report with the output that the guest had written.
    #[must_use]
    pub fn with_written(self, written: &PartialOutput) -> Self {
        Self { partial: Some(written.into()), ..self }
    }
}

#[cfg(test)]
mod tests;

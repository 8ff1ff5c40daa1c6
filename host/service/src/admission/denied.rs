use codebox_core::ResultKind;
use thiserror::Error;

/// Reason for refusing a request: one line that names the subject. [`Denied::fix`] contains the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {action} {subject}: {detail}")]
pub struct Denied {
    /// Kind of refusal.
    pub kind: ResultKind,
    /// Action that is refused, as a verb: "run", "grant".
    pub action: &'static str,
    /// Subject of the action, as the user wrote it.
    pub subject: String,
    /// Reason for the refusal.
    pub detail: String,
    /// Remedy, in one line.
    pub fix: String,
}

impl Denied {
    /// Returns the exit status of a process that ends with this error.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.kind.failure_status()
    }

    pub(super) fn new(
        kind: ResultKind,
        action: &'static str,
        subject: impl Into<String>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { kind, action, subject: subject.into(), detail: detail.into(), fix: fix.into() }
    }
}

use codebox_core::ResultKind;
use thiserror::Error;

/// Why a request is not carried out. One line that names the thing; [`Denied::fix`] says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot {action} {subject}: {detail}")]
pub struct Denied {
    /// What kind of refusal it is.
    pub kind: ResultKind,
    /// What cannot be done, as a verb: "run", "grant".
    pub action: &'static str,
    /// The thing it cannot be done to, as the user wrote it.
    pub subject: String,
    /// Why.
    pub detail: String,
    /// What to do instead, in one line.
    pub fix: String,
}

impl Denied {
    /// The exit status of a process that ends with this.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.kind.failure_status()
    }

    pub(super) fn new(
        kind: ResultKind,
        (action, subject): (&'static str, impl Into<String>),
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self { kind, action, subject: subject.into(), detail: detail.into(), fix: fix.into() }
    }
}

use std::error::Error;

use codebox_core::{BackendError, ResultKind, Written, wire, with_causes};
use codebox_service::catalog::CatalogError;
use codebox_service::run::backend_fix;
use codebox_service::{ConfigError, Denied, JournalError, PlanError};

/// A failure of codebox: a message of one line, a remedy, and the result kind that determines the exit status.
///
/// Every error of the other crates is converted to this type exactly once, in the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    kind: ResultKind,
    message: String,
    fix: Option<String>,
    /// Output of the program, if it had started.
    written: Option<Box<Written>>,
}

impl Failure {
    /// Creates a failure without a remedy.
    #[must_use]
    pub fn new(kind: ResultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None, written: None }
    }

    /// Creates a failure from `error` and its sources.
    #[must_use]
    pub fn of(kind: ResultKind, error: &(dyn Error + 'static)) -> Self {
        Self::new(kind, with_causes(error))
    }

    /// Sets the remedy.
    #[must_use]
    pub fn with_fix(self, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        Self { fix, ..self }
    }

    /// Returns the result kind.
    #[must_use]
    pub const fn kind(&self) -> ResultKind {
        self.kind
    }

    /// Returns the message, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the remedy.
    #[must_use]
    pub fn fix(&self) -> Option<&str> {
        self.fix.as_deref()
    }

    /// Returns the exit status of the process.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        self.kind.failure_status()
    }

    /// Returns the report that `--json` prints.
    #[must_use]
    pub fn to_wire(&self) -> wire::v1::ErrorReport {
        let report = wire::v1::ErrorReport::new(self.kind, self.message.clone(), self.fix.clone());
        match &self.written {
            Some(written) => report.with_written(written),
            None => report,
        }
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::of(denied.kind, &denied).with_fix(denied.fix.clone())
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix())
    }
}

impl From<CatalogError> for Failure {
    fn from(error: CatalogError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix())
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix.clone())
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Self {
        Self::of(ResultKind::InternalError, &error).with_fix("make room there, or let this user write there")
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        let failure = Self::of(error.kind(), &error).with_fix(backend_fix(&error).unwrap_or_default());
        Self { written: error.written().cloned().map(Box::new), ..failure }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn causes_join_the_line_once() {
        let error = BackendError::io("read the image", io::Error::other("disk on fire"));
        let failure = Failure::from(error);
        assert_eq!(failure.message(), "cannot read the image: disk on fire");
        assert_eq!(failure.exit_status(), 125);
    }

    #[test]
    fn an_empty_fix_is_no_fix() {
        let failure = Failure::new(ResultKind::Denied, "x").with_fix("");
        assert_eq!((failure.fix(), failure.exit_status()), (None, 126));
    }
}

use std::convert::Infallible;
use std::error::Error;
use std::fmt;

use crate::backend::{BackendError, PartialOutput};
use crate::error_chain::format_error_chain;
use crate::outcome::ResultKind;
use crate::wire;

/// Error of codebox itself, as a caller sees it: a stable kind, a message of one line, and a remedy.
///
/// The outcome of a program is never such an error; it is part of the report. Every error of a stage is converted to
/// this type once, where the stage ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerError {
    kind: ResultKind,
    message: String,
    fix: Option<String>,
    /// Output of the program, if it had started.
    partial_output: Option<Box<PartialOutput>>,
}

impl RunnerError {
    /// Creates an error without a remedy.
    #[must_use]
    pub fn new(kind: ResultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), fix: None, partial_output: None }
    }

    /// Creates an error from `error` and its sources.
    #[must_use]
    pub fn of(kind: ResultKind, error: &(dyn Error + 'static)) -> Self {
        Self::new(kind, format_error_chain(error))
    }

    /// Sets the remedy.
    #[must_use]
    pub fn with_fix(self, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        Self { fix, ..self }
    }

    /// Returns the result kind, which is stable between versions.
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

    /// Returns the JSON form of this error.
    #[must_use]
    pub fn to_wire(&self) -> wire::v1::ErrorReport {
        let report = wire::v1::ErrorReport::new(self.kind, self.message.clone(), self.fix.clone());
        match &self.partial_output {
            Some(partial_output) => report.with_written(partial_output),
            None => report,
        }
    }
}

impl fmt::Display for RunnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for RunnerError {}

impl From<Infallible> for RunnerError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<BackendError> for RunnerError {
    fn from(error: BackendError) -> Self {
        let converted = Self::of(error.kind(), &error).with_fix(error.fix().unwrap_or_default());
        Self { partial_output: error.partial_output().cloned().map(Box::new), ..converted }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn joins_causes_once() {
        let error = BackendError::io("read the image", io::Error::other("disk on fire"));
        let error = RunnerError::from(error);
        assert_eq!(error.message(), "cannot read the image: disk on fire");
        assert_eq!(error.exit_status(), 125);
    }

    #[test]
    fn ignores_empty_fix() {
        let error = RunnerError::new(ResultKind::Denied, "x").with_fix("");
        assert_eq!((error.fix(), error.exit_status()), (None, 126));
    }
}

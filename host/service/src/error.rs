//! Conversion of this crate's errors into the error that a caller of codebox sees.

use codebox_core::{ResultKind, RunnerError};

use crate::admission::Denied;
use crate::catalog::CatalogError;
use crate::config::{ConfigError, UnknownLanguage};
use crate::journal::JournalError;
use crate::plan::PlanError;

impl From<Denied> for RunnerError {
    fn from(denied: Denied) -> Self {
        Self::of(denied.kind, &denied).with_fix(denied.fix.clone())
    }
}

impl From<PlanError> for RunnerError {
    fn from(error: PlanError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix())
    }
}

impl From<CatalogError> for RunnerError {
    fn from(error: CatalogError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix())
    }
}

impl From<ConfigError> for RunnerError {
    fn from(error: ConfigError) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix.clone())
    }
}

impl From<UnknownLanguage> for RunnerError {
    fn from(error: UnknownLanguage) -> Self {
        Self::of(error.kind(), &error).with_fix(error.fix())
    }
}

impl From<JournalError> for RunnerError {
    fn from(error: JournalError) -> Self {
        Self::of(ResultKind::InternalError, &error).with_fix("free disk space there, or make it writable for this user")
    }
}

//! Conversion of package errors to errors of a run.

use std::path::Path;

use codebox_core::{ResultKind, RunnerError};

use crate::error::FetchError;
use crate::package_store::StoreError;
use crate::resolve::ResolveError;

/// Converts a resolution error. `advice` is the fix for packages that would have to be built.
pub(super) fn resolution_error(error: ResolveError, advice: &str) -> RunnerError {
    let kind = match &error {
        // These errors may be temporary.
        ResolveError::Offline(_) | ResolveError::Index { .. } | ResolveError::Deadline { .. } => {
            ResultKind::EngineUnavailable
        }
        _ => ResultKind::InstallFailed,
    };
    let failure = RunnerError::of(kind, &error);
    match &error {
        ResolveError::NoSolution { unbuilt, .. } if !unbuilt.is_empty() => failure.with_fix(advice),
        ResolveError::File(error) if is_mismatch(error) => failure.with_fix(MISMATCH_FIX),
        _ => failure,
    }
}

/// Converts an error of the package store.
pub(super) fn not_installed(error: StoreError) -> RunnerError {
    RunnerError::of(ResultKind::InstallFailed, &error)
}

/// Converts an error about wheels. If a wheel differs from the chosen one, the fix names the lock that chose it, if
/// any.
pub(super) fn mismatch_error(error: StoreError, lock: Option<&Path>) -> RunnerError {
    let is_mismatch = is_mismatch(&error);
    let failure = not_installed(error);
    match lock {
        _ if !is_mismatch => failure,
        Some(lock) => failure.with_fix(format!("recreate {} with codebox lock", lock.display())),
        None => failure.with_fix(MISMATCH_FIX),
    }
}

/// Returns true if an error means that a wheel differs from the expected one.
fn is_mismatch(error: &StoreError) -> bool {
    use FetchError::{WrongHash, WrongSize};
    matches!(error, StoreError::Wheel { .. } | StoreError::Fetch(WrongHash { .. } | WrongSize { .. }))
}

/// The fix for a wheel that differs from the expected one.
const MISMATCH_FIX: &str = "request another version, or use another index";

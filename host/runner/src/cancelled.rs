//! Jobs that are cancelled before their program starts.

use codebox_core::{
    BackendId, CancelToken, Isolation, IsolationSet, Limits, Outcome, Provenance, RunReport, RunnerError, SessionState,
};

use crate::front_end::RunEnd;
use crate::pipeline::PlannedJob;

/// Backend in the report of a job for which none was chosen.
const NO_BACKEND: BackendId = BackendId::new("none");

/// Waits for a stage; `None` if the job is cancelled before the stage has ended.
///
/// A stage that is ready at once counts as ended even if the job was cancelled before.
pub(crate) async fn unless_cancelled<T>(
    cancel: &CancelToken,
    stage: impl Future<Output = Result<T, RunnerError>>,
) -> Result<Option<T>, RunnerError> {
    tokio::select! {
        biased;
        result = stage => result.map(Some),
        () = cancel.cancelled() => Ok(None),
    }
}

/// Returns the end of a job that was cancelled before a backend was chosen. The report names the first isolation that
/// the job accepts.
pub(crate) fn cancelled_before_choice(isolations: IsolationSet, limits: Limits) -> RunEnd {
    let isolation = isolations.iter().next().unwrap_or(Isolation::Wasm);
    cancelled(Provenance::new(NO_BACKEND, isolation), limits, "before a backend was chosen")
}

/// Returns the report of a cell that was cancelled before it started.
pub(crate) fn cancelled_cell(limits: Limits, is_kept: bool) -> RunReport {
    let report = cancelled_report(Provenance::new(NO_BACKEND, Isolation::Wasm), limits, "before it started");
    RunReport { session: Some(SessionState { is_kept, ..SessionState::default() }), ..report }
}

/// Returns the end of a job that was cancelled before its program started.
pub(crate) fn cancelled_before_start(planned: &PlannedJob<'_>) -> RunEnd {
    let choice = &planned.plan.choice;
    let provenance = Provenance::new(choice.backend.clone(), choice.isolation);
    cancelled(provenance, planned.job.admitted.job().limits, "before its program started")
}

fn cancelled(provenance: Provenance, limits: Limits, when: &str) -> RunEnd {
    RunEnd::Report(Box::new(cancelled_report(provenance, limits, when)))
}

fn cancelled_report(mut provenance: Provenance, limits: Limits, when: &str) -> RunReport {
    provenance.reason = format!("cancelled {when}");
    RunReport::new(Outcome::Cancelled, provenance, limits)
}

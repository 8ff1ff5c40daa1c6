//! Spans of a job and of its stages. No field contains data of the guest.

use codebox_core::{Isolation, ResultKind, RunReport, RunnerError};
use codebox_service::Plan;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, info_span};

use crate::front_end::RunEnd;

/// Name of the outcome of a stage that succeeded.
const OK: &str = "ok";

/// Creates the span of a job.
pub(crate) fn job() -> Span {
    info_span!(
        "job",
        id = Empty,
        backend = Empty,
        isolation = Empty,
        image = Empty,
        outcome = Empty,
        stdout_bytes = Empty,
        stderr_bytes = Empty,
    )
}

/// Runs a stage within its span, and records its outcome: `ok`, or the kind of the error.
pub(crate) async fn stage<T>(span: Span, work: impl Future<Output = Result<T, RunnerError>>) -> Result<T, RunnerError> {
    let result = work.instrument(span.clone()).await;
    record_outcome(&span, &result);
    result
}

/// Runs a stage that does not wait within its span, and records its outcome.
pub(crate) fn blocking_stage<T>(span: Span, work: impl FnOnce() -> Result<T, RunnerError>) -> Result<T, RunnerError> {
    let result = span.in_scope(work);
    record_outcome(&span, &result);
    result
}

/// Records the outcome of a stage: `ok`, or the kind of the error.
pub(crate) fn record_outcome<T>(span: &Span, result: &Result<T, RunnerError>) {
    match result {
        Ok(_) => span.record("outcome", OK),
        Err(error) => span.record("outcome", display(error.kind())),
    };
}

/// Records the id of the journal and the plan of a job in the current span.
pub(crate) fn record_plan(id: Option<&str>, plan: &Plan) {
    let span = Span::current();
    if let Some(id) = id {
        span.record("id", id);
    }
    span.record("backend", plan.choice.backend.as_str());
    span.record("isolation", plan.choice.isolation.as_str());
    // The image of a container is known from its report.
    if plan.choice.isolation == Isolation::Wasm {
        span.record("image", plan.image.name.as_str());
    }
}

/// Records the result of a run in the current span, which is that of its execution.
pub(crate) fn record_result(report: &RunReport) {
    let span = Span::current();
    span.record("job_result", display(report.result_kind()));
    span.record("stdout_bytes", report.stdout.total());
    span.record("stderr_bytes", report.stderr.total());
    if let Some(image) = report.provenance.image.as_deref() {
        span.record("image", image);
    }
}

/// Records the end of a job.
pub(crate) fn record_end(span: &Span, ended: &Result<RunEnd, RunnerError>) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(RunEnd::Report(report)) => {
            span.record("outcome", display(report.result_kind()));
            span.record("stdout_bytes", report.stdout.total());
            span.record("stderr_bytes", report.stderr.total());
            if report.result_kind() != ResultKind::Cancelled && report.provenance.isolation != Isolation::Wasm {
                span.record("image", report.provenance.image.as_deref());
            }
        }
        Ok(RunEnd::TakenOver(status)) => {
            span.record("outcome", display(format_args!("taken over, status {status}")));
        }
        Err(error) => {
            span.record("outcome", display(error.kind()));
        }
    }
}

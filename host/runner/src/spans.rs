//! Span of a job, with its id, plan and outcome as fields. No field contains data of the guest.

use codebox_core::RunnerError;
use codebox_service::Plan;
use tracing::field::{Empty, display};
use tracing::{Span, info_span};

use crate::front_end::Ended;

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

/// Records the id of the journal and the plan of a job.
pub(crate) fn record_plan(span: &Span, id: Option<&str>, plan: &Plan) {
    if let Some(id) = id {
        span.record("id", id);
    }
    span.record("backend", plan.choice.backend.as_str());
    span.record("isolation", plan.choice.isolation.as_str());
    span.record("image", plan.image.name.as_str());
}

/// Records the end of a job.
pub(crate) fn record_end(span: &Span, ended: &Result<Ended, RunnerError>) {
    if span.is_disabled() {
        return;
    }
    match ended {
        Ok(Ended::Report(report)) => {
            span.record("outcome", display(report.result_kind()));
            span.record("stdout_bytes", report.stdout.total());
            span.record("stderr_bytes", report.stderr.total());
        }
        Ok(Ended::TakenOver(status)) => {
            span.record("outcome", display(format_args!("taken over, status {status}")));
        }
        Err(error) => {
            span.record("outcome", display(error.kind()));
        }
    }
}

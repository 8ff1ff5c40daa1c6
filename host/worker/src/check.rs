//! Check of a worker's report: a guest that has taken its worker over can send any.

use codebox_core::path::MappedPath as _;
use codebox_core::{
    Access, BackendId, CappedSink, CapturedOutput, HostPath, InstanceSpec, Job, OutFile, RunReport, SandboxLayer,
};

/// Returns the report with the members that this process knows better than the worker. `layers` are the ones that the worker
/// reported before it started the program.
pub(crate) fn checked(
    mut report: RunReport,
    id: &BackendId,
    spec: &InstanceSpec,
    job: &Job,
    layers: Vec<SandboxLayer>,
) -> RunReport {
    report.id = None;
    report.limits = job.limits;
    report.provenance.backend = id.clone();
    report.provenance.isolation = spec.isolation;
    report.provenance.container_id = None;
    report.provenance.escalated_from = None;
    report.needs_escalation = None;
    report.enforcement.layers = layers;
    for output in [&mut report.stdout, &mut report.stderr] {
        *output = capped(std::mem::take(output), job);
    }
    let writable: Vec<&HostPath> = spec
        .grants
        .dirs
        .iter()
        .filter(|grant| grant.access == Access::ReadWrite)
        .map(|grant| &grant.host)
        .chain(&job.out)
        .collect();
    let is_granted = |host: &HostPath| writable.iter().any(|dir| host.is_within(dir));
    let files = &mut report.files;
    for list in [&mut files.created, &mut files.modified, &mut files.deleted] {
        list.iter_mut().for_each(|OutFile { host, .. }| *host = host.take().filter(is_granted));
    }
    report
}

/// Returns captured output within the job's limit.
fn capped(output: CapturedOutput, job: &Job) -> CapturedOutput {
    let kept = (output.head.len() + output.tail.len()) as u64;
    if job.limits.output.at().is_none_or(|cap| kept <= cap.get()) {
        return output;
    }
    let mut sink = CappedSink::new(job.limits.output);
    sink.push(&output.head);
    sink.push(&output.tail);
    let capped = sink.finish();
    CapturedOutput { dropped: capped.dropped.saturating_add(output.dropped), ..capped }
}

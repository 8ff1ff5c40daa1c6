//! Check of a worker's report: a guest that has taken its worker over can send any.

use codebox_core::path::MappedPath as _;
use codebox_core::{
    Access, BackendId, CappedSink, CapturedOutput, HostPath, InstanceSpec, Job, OutFile, Outcome, ReturnedFile,
    RunReport, SandboxLayer, SessionState,
};
use codebox_files::FileKinds;

use crate::message::line;

/// Returns the report with the members that this process knows better than the worker, which has ended. `layers` are the ones that
/// the worker reported before it started the program. Reads the kinds of files in granted directories.
pub(crate) fn checked(
    mut report: RunReport,
    id: &BackendId,
    spec: &InstanceSpec,
    job: &Job,
    layers: Vec<SandboxLayer>,
) -> RunReport {
    report.id = None;
    report.limits = job.limits;
    report.needs_escalation = None;
    if report.outcome == Outcome::Suspended {
        report.outcome = Outcome::Cancelled;
    }
    let is_kept = report.is_kept();
    report.session = spec.session.is_some().then_some(SessionState { is_kept, ..SessionState::default() });
    report.enforcement.layers = layers;
    report.enforcement.uncovered.values_mut().for_each(|text| *text = line(text));
    let provenance = &mut report.provenance;
    provenance.backend = id.clone();
    provenance.isolation = spec.isolation;
    provenance.container_id = None;
    provenance.directory = None;
    provenance.escalated_from = None;
    // The runner gives the reason.
    provenance.reason.clear();
    let texts = [&mut provenance.runtime, &mut provenance.image, &mut provenance.image_digest, &mut provenance.engine];
    texts.into_iter().flatten().for_each(|text| *text = line(text));
    if !job.results {
        report.results.clear();
    }
    report.missed.limit();
    let mut left = ReturnedFile::MAX_BYTES;
    report.returned.truncate(job.returns.len());
    for (file, path) in report.returned.iter_mut().zip(&job.returns) {
        file.path = path.clone();
        match &mut file.content {
            Ok(bytes) => match left.checked_sub(bytes.len() as u64) {
                Some(rest) => left = rest,
                None => file.content = Err("it is too large".to_owned()),
            },
            Err(reason) => *reason = line(reason),
        }
    }
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
    let mut kinds = FileKinds::default();
    let files = &mut report.files;
    for OutFile { host, kind, .. } in files.created.iter_mut().chain(&mut files.modified) {
        // A link in place of a file would lead a process that opens it to another file.
        let mut is_there = |host: &HostPath| kinds.kind(&host.to_path_buf()).is_ok_and(|found| found == *kind);
        *host = host.take().filter(|host| is_granted(host) && is_there(host));
    }
    files.deleted.iter_mut().for_each(|OutFile { host, .. }| *host = host.take().filter(is_granted));
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

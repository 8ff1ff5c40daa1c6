//! Notes for the user after a run.

use std::path::Path;

use codebox_core::{CapturedOutput, DenialKind, FileChanges, HostPath, NeedsEscalation, Outcome, RunReport};

use codebox_service::limit_text::{limit_hit, name_and_flag};

use super::provenance::escalation;
use super::values::bytes;

/// Maximum number of files that are listed one by one.
const MAX_LISTED_FILES: usize = 20;

/// Returns the lines to print after a run, in order; empty if the run ended as expected.
///
/// `out` is the directory that files were copied to, if the user named one.
pub(crate) fn notes(report: &RunReport, out: Option<&HostPath>) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(truncation("stdout", &report.stdout));
    lines.extend(truncation("stderr", &report.stderr));
    if report.results_dropped > 0 {
        let count = report.results_dropped;
        lines.push(format!(
            "results that are missing or incomplete: {count}; a run has at most 256 results and 16 MiB of them"
        ));
    }
    lines.extend(report.spilled.iter().map(ToString::to_string));
    lines.extend(escalation(&report.provenance));
    lines.extend(ending(report));
    let raised = match &report.outcome {
        Outcome::LimitHit(kind) => name_and_flag(*kind).1,
        _ => None,
    };
    for denial in &report.denials {
        let what = denied(denial.what);
        // The line about the outcome already shows how to raise that limit.
        let is_reported = raised.is_some_and(|flag| denial.hint == format!("raise {flag}"));
        let hint = if is_reported { "" } else { &denial.hint };
        lines.push(hinted(format!("denied: {what} {}", denial.detail), hint));
    }
    if let Some(NeedsEscalation { reason, command }) = &report.needs_escalation {
        lines.push(match command.as_str() {
            "" => reason.clone(),
            command => format!("{reason}; to run it in a container: {command}"),
        });
        lines.extend(files(&report.files, out));
        return lines;
    }
    for missing in &report.missing {
        lines.push(hinted(format!("not available here: {}", missing.what), &missing.hint));
    }
    lines.extend(files(&report.files, out));
    lines
}

fn hinted(line: String, hint: &str) -> String {
    if hint.is_empty() { line } else { format!("{line}; {hint}") }
}

fn truncation(stream: &str, output: &CapturedOutput) -> Option<String> {
    let dropped = output.dropped;
    output
        .is_truncated()
        .then(|| format!("{stream} was truncated: {dropped} bytes dropped; raise it with --max-output"))
}

/// Returns the line about a command or cell that another process ran and could not record. Runs of this process report it
/// before they start.
pub(crate) fn unaudited_line(report: &RunReport) -> Option<String> {
    report.unaudited.as_ref().map(|reason| format!("not recorded in the audit log: {reason}"))
}

/// Returns the reason that the run ended, if the exit status alone does not show it.
fn ending(report: &RunReport) -> Option<String> {
    match &report.outcome {
        // A program that was not started cannot have printed the reason itself.
        Outcome::Exited(126 | 127) => {
            report.error.as_ref().filter(|error| error.is_start_failure()).map(|error| error.value.clone())
        }
        Outcome::Exited(_) => None,
        Outcome::Signalled(signal) => Some(format!("ended by signal {signal}")),
        Outcome::Trapped(trap) => Some(format!("trapped: {trap}")),
        Outcome::Cancelled => Some("cancelled".to_owned()),
        // A note about the session has the call.
        Outcome::Suspended => None,
        Outcome::LimitHit(kind) => Some(limit_hit(*kind, &report.limits)),
    }
}

const fn denied(kind: DenialKind) -> &'static str {
    match kind {
        DenialKind::Fs => "file",
        DenialKind::Net => "network",
        DenialKind::Env => "environment variable",
        DenialKind::Capability => "capability",
        DenialKind::Tool => "tool",
    }
}

/// Returns lines about the files that were copied out, if the user named a directory, and about those that were not.
fn files(changes: &FileChanges, out: Option<&HostPath>) -> Vec<String> {
    let Some(out) = out else {
        return Vec::new();
    };
    let written: Vec<_> = [&changes.created, &changes.modified]
        .into_iter()
        .flatten()
        .filter_map(|file| Some((file.host.as_ref()?, file.size)))
        .filter(|(host, _)| Path::new(host.as_str()).starts_with(out.as_str()))
        .collect();
    let mut lines: Vec<String> = written
        .iter()
        .take(MAX_LISTED_FILES)
        .map(|(host, size)| format!("wrote {} ({})", host.as_str(), bytes(*size)))
        .collect();
    if written.len() > MAX_LISTED_FILES {
        let more = written.len() - MAX_LISTED_FILES;
        lines.push(format!("wrote {more} more files to {}", out.as_str()));
    }
    for skipped in &changes.skipped {
        let name = String::from_utf8_lossy(&skipped.name);
        lines.push(format!("did not write {name}: {}", skipped.reason));
    }
    if changes.dropped > 0 {
        lines.push(format!("{} more changes are not listed", changes.dropped));
    }
    if lines.is_empty() {
        lines.push(format!("wrote nothing to {}: the program has created or changed no file in /work", out.as_str()));
    }
    lines
}

#[cfg(test)]
mod tests;

//! Decision after a run in WebAssembly: whether the job is run again in a container.
//!
//! The evidence is the count that the runtime's own hooks keep of uses of missing features, and never the program's
//! output. A program that forges the evidence gains only what it would gain by using the feature: a container, within
//! the limits of the policy.

use codebox_core::{
    BackendId, Effects, EscalatedFrom, Isolation, Job, Language, Missing, NeedsEscalation, Outcome, Provenance,
    RunReport, Source, TrapKind,
};

use crate::admission::Escalation;
use crate::needs::IsolationRequest;

/// Decision about a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EscalationDecision {
    /// The result stands: the run succeeded, or failed for an unrelated reason.
    Keep,
    /// The job is to be run again in a container, because of these missing features.
    Escalate(String),
    /// The job is to be run again in WebAssembly, with all code of its runtime.
    LoadAllCode,
    /// The job ended because of code that was not loaded, but it is not run again, for this reason.
    LacksCode(String),
    /// A container would have the missing features, but the job is not run again.
    Needs {
        /// Missing features.
        missing: String,
        /// Reason that the job is not run again.
        why: String,
    },
}

/// Decides about a run that has ended, from the report, the job and the policy alone.
#[must_use]
pub fn decide_escalation(report: &RunReport, job: &Job, escalation: Escalation) -> EscalationDecision {
    if let Outcome::Trapped(TrapKind::MissingCode | TrapKind::NullCall) = report.outcome {
        return match reason_against_rerun(report) {
            None => EscalationDecision::LoadAllCode,
            Some(why) => EscalationDecision::LacksCode(why.to_owned()),
        };
    }
    let died = match report.outcome {
        Outcome::Exited(_) | Outcome::Trapped(_) => !report.is_success(),
        Outcome::Signalled(_) | Outcome::LimitHit(_) | Outcome::Cancelled | Outcome::Suspended => false,
    };
    let missing = report.missing.iter().map(|missing| missing.what.as_str());
    let missing: Vec<&str> = missing.filter(|what| has_in_container(&job.language, what)).collect();
    if !died || missing.is_empty() || report.provenance.isolation != Isolation::Wasm {
        return EscalationDecision::Keep;
    }
    let missing = missing.join(", ");
    let needs = |why: &str| EscalationDecision::Needs { missing: missing.clone(), why: why.to_owned() };
    if matches!(job.source, Source::Tool { .. }) || job.language.spec().container.is_none() {
        return EscalationDecision::Keep;
    }
    if !job.grants.secrets.is_empty() {
        return needs("only WebAssembly keeps its secrets from the program");
    }
    if job.isolations.iter().all(|isolation| isolation == Isolation::Wasm) {
        return needs("only isolation wasm is allowed");
    }
    // As before the run, a comment in the program narrows the accepted isolations.
    if let Ok(Some(IsolationRequest { isolation: Isolation::Wasm, line })) = IsolationRequest::of_job(job) {
        return needs(&format!("line {line} requests isolation wasm"));
    }
    if escalation == Escalation::Forbidden {
        return needs("the policy does not allow escalation");
    }
    match reason_against_rerun(report) {
        None => EscalationDecision::Escalate(missing),
        Some(why) => needs(why),
    }
}

/// Returns the reason that a job which has ended cannot be run again.
fn reason_against_rerun(report: &RunReport) -> Option<&'static str> {
    if report.network.may_have_connected() {
        return Some("it has connected to hosts on the network");
    }
    if report.effects == Effects::Possible {
        return Some("it has changed files outside its sandbox");
    }
    report.stdout.is_truncated().then_some("its output was truncated")
}

/// Creates the report's entry for code that was not loaded and not compiled, in a run that is not repeated.
#[must_use]
pub fn missing_code(runtime: &str, why: &str) -> Missing {
    Missing {
        what: format!("code of {runtime} that is not compiled"),
        hint: format!("the program is not run again: {why}; to compile it: codebox runtime prepare {runtime}"),
    }
}

/// Creates the report's entry for a run that is not repeated: the missing features, the reason, and the command that
/// repeats the run in a container.
#[must_use]
pub fn escalation_hint(missing: &str, why: &str, command: String) -> NeedsEscalation {
    NeedsEscalation {
        reason: format!("the program needs {missing}, which WebAssembly does not support; {why}"),
        command,
    }
}

/// Records in a report that the job ran in `from` before, and which features it lacked there.
pub fn mark_escalated(provenance: &mut Provenance, from: BackendId, missing: &str) {
    provenance.reason = format!("failed in {from}: missing {missing}");
    let reason = missing.to_owned();
    provenance.escalated_from = Some(EscalatedFrom { backend: from, isolation: Isolation::Wasm, reason });
}

/// Records in a report that the job ran before, and called code that was not loaded.
pub fn mark_rerun_with_all_code(provenance: &mut Provenance) {
    provenance.reason = "run again with all code of its runtime".to_owned();
}

/// Returns true if a container has the missing feature. The library of a container image is not known; of the language's
/// library, only those parts count that every interpreter on an operating system has.
fn has_in_container(language: &Language, feature: &str) -> bool {
    const CAPABILITIES: [&str; 8] = [
        "threads",
        "processes",
        "network sockets",
        "signals",
        "hashlib.scrypt",
        "image codecs",
        "font rendering",
        "native libraries",
    ];
    CAPABILITIES.contains(&feature) || language.adapter().is_some_and(|adapter| adapter.has_natively(feature))
}

#[cfg(test)]
mod tests {
    use codebox_core::{BackendId, IsolationSet, Limits, Missing, Provenance};

    use super::*;

    fn report(outcome: Outcome, missing: &[&str]) -> RunReport {
        let provenance = Provenance::new(BackendId::new("wasm"), Isolation::Wasm);
        let mut report = RunReport::new(outcome, provenance, Limits::default());
        let missing = missing.iter().map(|what| Missing { what: (*what).to_owned(), hint: String::new() });
        report.missing = missing.collect();
        report
    }

    #[test]
    fn only_missing_features_cause_escalation() {
        let job = Job::python("");
        let decide_escalation = |report: &RunReport| decide_escalation(report, &job, Escalation::Allowed);
        let failed = Outcome::Exited(1);
        assert_eq!(
            decide_escalation(&report(failed.clone(), &["threads"])),
            EscalationDecision::Escalate("threads".to_owned())
        );
        for served in ["the module ssl", "Python's os.mkfifo"] {
            assert_eq!(
                decide_escalation(&report(failed.clone(), &[served])),
                EscalationDecision::Escalate(served.to_owned())
            );
        }
        let script = Job::new(Source::Inline(String::new()), Language::JavaScript);
        let served = "Node's crypto.createCipheriv";
        assert_eq!(
            super::decide_escalation(&report(failed.clone(), &[served]), &script, Escalation::Allowed),
            EscalationDecision::Escalate(served.to_owned())
        );
        for (outcome, missing) in [
            (Outcome::Exited(0), &["threads"][..]),
            (failed.clone(), &[]),
            (failed, &["the module nosuchmodule"]),
            (Outcome::Cancelled, &["threads"]),
            (Outcome::LimitHit(codebox_core::LimitKind::Wall), &["threads"]),
        ] {
            assert_eq!(
                decide_escalation(&report(outcome.clone(), missing)),
                EscalationDecision::Keep,
                "{outcome:?} {missing:?}"
            );
        }
    }

    #[test]
    fn missing_code_is_loaded_whatever_the_policy() {
        let lacking = report(Outcome::Trapped(TrapKind::MissingCode), &["threads"]);
        let job = Job { isolations: IsolationSet::only(Isolation::Wasm), ..Job::python("") };
        assert_eq!(decide_escalation(&lacking, &job, Escalation::Forbidden), EscalationDecision::LoadAllCode);
        let changed = RunReport { effects: Effects::Possible, ..lacking };
        let why = "it has changed files outside its sandbox".to_owned();
        assert_eq!(decide_escalation(&changed, &job, Escalation::Forbidden), EscalationDecision::LacksCode(why));
    }

    #[test]
    fn printed_text_does_not_affect_decision() {
        let mut forged = report(Outcome::Exited(1), &[]);
        forged.stderr = codebox_core::CapturedOutput::complete("RuntimeError: can't start new thread");
        assert_eq!(decide_escalation(&forged, &Job::python(""), Escalation::Allowed), EscalationDecision::Keep);
    }

    #[test]
    fn is_not_rerun_if_forbidden_or_after_effects() {
        let lacking = report(Outcome::Exited(1), &["processes"]);
        let mut job = Job::python("");
        assert!(matches!(decide_escalation(&lacking, &job, Escalation::Forbidden), EscalationDecision::Needs { .. }));
        let changed = RunReport { effects: Effects::Possible, ..lacking.clone() };
        assert!(matches!(decide_escalation(&changed, &job, Escalation::Allowed), EscalationDecision::Needs { .. }));
        let mut reached = lacking.clone();
        reached.network.sent = 1;
        let (missing, why) = ("processes".to_owned(), "it has connected to hosts on the network".to_owned());
        assert_eq!(decide_escalation(&reached, &job, Escalation::Allowed), EscalationDecision::Needs { missing, why });
        let asks = Job::python("# codebox: isolation=wasm");
        let why = "line 1 requests isolation wasm".to_owned();
        let missing = "processes".to_owned();
        assert_eq!(decide_escalation(&lacking, &asks, Escalation::Allowed), EscalationDecision::Needs { missing, why });
        job.isolations = IsolationSet::only(Isolation::Wasm);
        assert!(matches!(decide_escalation(&lacking, &job, Escalation::Allowed), EscalationDecision::Needs { .. }));
    }
}

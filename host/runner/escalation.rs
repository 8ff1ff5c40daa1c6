//! Escalation of a failed run in WebAssembly to a second run in a container.

use std::sync::Arc;

use codebox_core::{CancelToken, ExecIo, Isolation, IsolationSet, Job, Language, Outcome, RunReport};
use codebox_service::{After, Escalation, Looked, Wanted, after, mark_escalated, unmet};
use codebox_streams::{LAST_WORDS, Revocable};
use tokio::sync::oneshot;

use super::engines::Opened;
use super::{Runner, RunnerError};

/// Hint on how to rerun the job in a container.
const REMEDY: &str = "job.isolations = IsolationSet::only(Isolation::Container)";

/// The streams of a run that are kept for a second run.
pub(super) enum Kept {
    /// The streams can be passed to a second run.
    Streams(Revocable),
    /// The run has no streams.
    Nothing,
    /// The streams cannot be used again.
    Gone,
}

impl Kept {
    fn revocable(&self) -> Option<&Revocable> {
        match self {
            Self::Streams(revocable) => Some(revocable),
            Self::Nothing | Self::Gone => None,
        }
    }
}

impl Runner {
    /// Makes the streams of a run revocable, if the run has streams and may be escalated.
    pub(super) fn kept(&self, job: &Job, io: &mut ExecIo) -> Kept {
        let possible = self.escalation == Escalation::Allowed
            && job.isolations.contains(Isolation::Container)
            && !matches!(job.language, Language::Named(_));
        if io.stdin.is_none() && io.stdout.is_none() && io.stderr.is_none() {
            Kept::Nothing
        } else if possible && self.engines.may_be_there() {
            Kept::Streams(Revocable::of(io))
        } else {
            Kept::Gone
        }
    }

    /// Returns the report of a run in WebAssembly, or that of a second run in a container.
    pub(super) async fn followed_up(
        &self,
        mut report: RunReport,
        job: &Job,
        looked: &Looked,
        (kept, cancel): (Kept, &CancelToken),
    ) -> Result<RunReport, RunnerError> {
        kept.revocable().into_iter().for_each(Revocable::freeze);
        let (lacked, why) = match after(&report, job, self.escalation) {
            After::Stay => {
                said(kept, &report).await;
                return Ok(report);
            }
            After::Needs { lacked, why } => (lacked, why),
            After::Escalate(lacked) => match self.in_container(&report, job, looked, (&kept, cancel)).await {
                Ok(Ok(mut second)) => {
                    mark_escalated(&mut second.provenance, report.provenance.backend, &lacked);
                    return Ok(second);
                }
                Ok(Err(error)) => return Err(error),
                Err(why) => (lacked, why),
            },
        };
        said(kept, &report).await;
        report.needs_escalation = Some(unmet(&lacked, &why, REMEDY.to_owned()));
        Ok(report)
    }

    /// Runs a job again in a container. The outer error is the reason why there is no second run.
    async fn in_container(
        &self,
        report: &RunReport,
        job: &Job,
        looked: &Looked,
        (kept, cancel): (&Kept, &CancelToken),
    ) -> Result<Result<RunReport, RunnerError>, String> {
        if matches!(kept, Kept::Gone) {
            return Err("no container engine is here (see codebox doctor)".to_owned());
        }
        let job = Arc::new(Job { isolations: IsolationSet::only(Isolation::Container), ..job.clone() });
        let wanted = Wanted::of_job(&job, looked, self.escalation);
        let opened = tokio::select! {
            opened = self.engines.open(wanted, &job, &self.wasm) => opened,
            () = cancel.cancelled() => return Err("it was cancelled before its container was ready".to_owned()),
        };
        let (choice, instance) = match opened {
            Ok(Opened::Container(choice, instance)) => (choice, instance),
            Ok(Opened::Wasm(_)) => return Err("no container can be had".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let printed = report.stdout.bytes().into_owned();
        let streams = match kept.revocable() {
            Some(revocable) => revocable.again(printed),
            None => Ok(ExecIo { cancel: cancel.clone(), ..ExecIo::none() }),
        };
        match streams {
            Ok(streams) => Ok(self.engines.exec((choice, instance), job, streams).await),
            Err(why) => {
                self.engines.give_up(instance).await;
                Err(why.to_owned())
            }
        }
    }
}

/// Releases the held output of a run that is not repeated. After a run that was stopped, waits at most [`LAST_WORDS`]
/// for a reader that does not read.
async fn said(kept: Kept, report: &RunReport) {
    let Kept::Streams(revocable) = kept else { return };
    let (say, said) = oneshot::channel();
    revocable.finish(move || {
        let _ = say.send(());
    });
    if matches!(report.outcome, Outcome::Exited(_)) {
        let _ = said.await;
    } else {
        let _ = tokio::time::timeout(LAST_WORDS, said).await;
    }
}

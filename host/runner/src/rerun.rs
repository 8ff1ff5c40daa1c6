//! Second run of a job that failed in WebAssembly: in a container because it lacks a feature there, or in WebAssembly
//! with all code of its runtime.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{CancelToken, CodeScope, ExecIo, Handover, ResultKind, RunReport, RunnerError, Source};
use codebox_service::{Admitted, mark_escalated, mark_rerun_with_all_code};
use codebox_streams::{DivergenceFlag, INPUT_NOT_REMEMBERED, ReplaceableRun};
use tokio::sync::oneshot;

use crate::cancelled::unless_cancelled;
use crate::front_end::{RunEnd, Standby, StandbyProcess};
use crate::pipeline::{AdmittedJob, PlannedJob};
use crate::runner::Runner;

/// Reason that a job is not run again: no engine may be available.
const NO_ENGINE: &str = "no container engine is available (see codebox doctor)";

/// Reason that a job is not run again: it has been.
pub(crate) const RUN_TWICE: &str = "it has been run again already";

/// Reason that a job is not run again in another process.
const PROGRAM_NOT_REMEMBERED: &str = "its program was read from a pipe";

/// Reason that a job is not run again with other code.
const NO_PROCESS: &str = "no process could be started for that";

/// Reason that a job is not run again: it was cancelled meanwhile.
const CANCELLED: &str = "cancelled before it could run again";

/// The streams of a run, which a second run may use again.
pub(crate) enum RerunStreams {
    /// The streams can be passed to a second run.
    Replaceable(ReplaceableRun),
    /// The run has no streams.
    None,
    /// The streams cannot be used again, because no second run is possible.
    Unavailable,
}

/// A job that is to be run again.
pub(crate) struct Rerun<'r> {
    pub job: &'r AdmittedJob,
    /// Id of the job in the journal.
    pub id: Option<&'r str>,
    /// Report of the first run.
    pub report: &'r RunReport,
    /// Features that the first run lacked.
    pub missing: &'r str,
    /// Code of the second run: all code if the first run lacked some, and otherwise the job runs in a container.
    pub code: CodeScope,
    /// False if this run is the second one already.
    pub is_first_run: bool,
    pub cancel: &'r CancelToken,
}

impl RerunStreams {
    /// Makes the streams of a run revocable if a second run is possible.
    pub(crate) fn of(io: &mut ExecIo, standby: &Standby) -> Self {
        match standby {
            Standby::Unavailable => Self::Unavailable,
            Standby::InProcess | Standby::Process(_)
                if io.stdin.is_none() && io.stdout.is_none() && io.stderr.is_none() =>
            {
                Self::None
            }
            Standby::InProcess | Standby::Process(_) => Self::Replaceable(ReplaceableRun::of(io)),
        }
    }

    fn replaceable(&self) -> Option<&ReplaceableRun> {
        match self {
            Self::Replaceable(replaceable) => Some(replaceable),
            Self::None | Self::Unavailable => None,
        }
    }

    /// Holds standard error back until the run is either replaced or finished.
    pub(crate) fn freeze(&self) {
        self.replaceable().into_iter().for_each(ReplaceableRun::freeze);
    }

    /// Releases the held output of a run that is not repeated. Waits for its reader, at most for this time.
    pub(crate) async fn release(self, timeout: Option<Duration>) {
        let Self::Replaceable(replaceable) = self else { return };
        let (done, released) = oneshot::channel();
        replaceable.finish(move || {
            let _ = done.send(());
        });
        match timeout {
            None => drop(released.await),
            Some(timeout) => drop(tokio::time::timeout(timeout, released).await),
        }
    }
}

impl Runner {
    /// Runs a job again. The outer error is the reason why there is no second run.
    pub(crate) async fn rerun(
        &self,
        rerun: Rerun<'_>,
        standby: Standby,
        held: &RerunStreams,
    ) -> Result<Result<RunEnd, RunnerError>, String> {
        match standby {
            Standby::Unavailable => Err(reason_without_standby(&rerun).to_owned()),
            Standby::Process(process) => hand_over(rerun, process, held),
            Standby::InProcess => self.rerun_in_process(rerun, held).await,
        }
    }

    async fn rerun_in_process(
        &self,
        Rerun { job, report, missing, code, cancel, .. }: Rerun<'_>,
        held: &RerunStreams,
    ) -> Result<Result<RunEnd, RunnerError>, String> {
        let prepare = async {
            let admitted = match code {
                CodeScope::All => Arc::clone(&job.admitted),
                CodeScope::Image => Arc::new(Admitted::clone(&job.admitted).in_container()),
            };
            let job = self.analyze_job(admitted).await?;
            let (plan, backend) = self.select(&job).await?;
            Ok((job, Arc::new(plan), backend))
        };
        let prepared = unless_cancelled(cancel, prepare).await.map_err(|error| error.to_string())?;
        let (job, plan, backend) = prepared.ok_or(CANCELLED)?;
        let planned = PlannedJob { job: &job, plan, backend, code, compiled: code, session: None, image: None };
        let opened = self.prepare(&planned, cancel).await.map_err(|error| error.to_string())?;
        let (guest, notes) = opened.ok_or(CANCELLED)?;
        let streams = match held.replaceable() {
            Some(replaceable) => replaceable.replay(report.stdout.bytes().into_owned()),
            None => Ok((ExecIo { cancel: cancel.clone(), ..ExecIo::none() }, DivergenceFlag::default())),
        };
        let (mut streams, divergence) = match streams {
            Ok(streams) => streams,
            Err(why) => {
                // A container that cannot be removed now is removed by a later sweep.
                let _ = guest.close().await;
                return Err(why.to_owned());
            }
        };
        let second = self.exec(guest, &mut streams).await;
        Ok(second.map(|mut second| {
            match code {
                CodeScope::All => mark_rerun_with_all_code(&mut second.provenance),
                CodeScope::Image => {
                    mark_escalated(&mut second.provenance, report.provenance.backend.clone(), missing);
                }
            }
            for note in &notes {
                second.provenance.reason = format!("{}; {note}", second.provenance.reason);
            }
            if divergence.is_set() {
                second.provenance.reason.push_str("; the rerun printed different output");
            }
            RunEnd::Report(Box::new(second))
        }))
    }
}

/// Returns the reason that a job is not run again if no process stands by for that.
fn reason_without_standby(rerun: &Rerun<'_>) -> &'static str {
    match rerun.code {
        _ if !rerun.is_first_run => RUN_TWICE,
        CodeScope::All => NO_PROCESS,
        CodeScope::Image => NO_ENGINE,
    }
}

/// Lets a standby process run the job again.
fn hand_over(
    Rerun { job, id, report, missing, code, is_first_run: _, cancel }: Rerun<'_>,
    process: Box<dyn StandbyProcess>,
    held: &RerunStreams,
) -> Result<Result<RunEnd, RunnerError>, String> {
    if !job.admitted.is_repeatable() {
        return Err(PROGRAM_NOT_REMEMBERED.to_owned());
    }
    let stdin = match held.replaceable() {
        Some(replaceable) => replaceable.read().ok_or(INPUT_NOT_REMEMBERED)?,
        None => Vec::new(),
    };
    let program = match &job.admitted.job().source {
        Source::Stdin(text) => Some(text.clone()),
        _ => None,
    };
    let handover = Handover {
        id: id.unwrap_or_default().to_owned(),
        from: report.provenance.backend.to_string(),
        missing: missing.to_owned(),
        code,
        stdout: report.stdout.bytes().into_owned(),
        stdin,
        program,
    };
    let mut discard = || held.replaceable().into_iter().for_each(ReplaceableRun::discard);
    Ok(process.take_over(&handover, cancel, &mut discard)?.map(RunEnd::TakenOver).ok_or_else(|| {
        let line = "cannot determine how the program ended: the process that reran it has exited";
        RunnerError::new(ResultKind::InternalError, line).with_fix("run it again")
    }))
}

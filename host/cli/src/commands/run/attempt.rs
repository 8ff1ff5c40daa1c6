//! Execution of a run, from arguments to a report, and the handover to a second run in a container.

use std::thread;
use std::time::Instant;

use codebox_core::{
    Backend, BackendId, CancelToken, Effects, HostPath, ImageName, Isolation, NeedsEscalation, RunReport, Unavailable,
};
use codebox_service::{
    Accepted, Admitted, After, BadAsk, Escalation, Looked, Plan, PlanError, Wanted, admit, after, choose, is_analyzed,
    look, mark_escalated, plan_of, prepare, unmet,
};
use codebox_streams::{Differs, READ_TOO_MUCH, Revocable};

use super::{lost_backend, lost_takeover, no_runtime, request};
use crate::args::RunArgs;
use crate::commands::again::{Image, again};
use crate::failure::Failure;
use crate::handover::Handover;
use crate::host::{Confinement, Host, Provided};
use crate::interrupt::Signals;
use crate::progress::progress;
use crate::standby::{Ended, Standby, StandingBy};
use crate::streams::{Delivery, Streams, say_last_words};
use crate::voice::Voice;

/// A run that has ended, with its results.
pub(super) struct Done {
    pub report: RunReport,
    pub out: Option<HostPath>,
    pub delivery: Delivery,
}

/// Result of an attempt.
pub(super) enum Attempt {
    /// The run ended in this process.
    Done(Box<Done>),
    /// Another process ran the command again, printed its result, and ended with this status.
    TakenOver(u8),
}

/// Handover from another run, in a process that stood by.
pub(crate) struct Takeover {
    line: StandingBy,
    handover: Handover,
    /// True once the job runs in this process.
    went: bool,
}

impl Takeover {
    /// Waits for the handover; `None` if the first run did not need this process.
    pub(crate) fn wait(mut line: StandingBy) -> Option<Self> {
        let handover = line.wait()?;
        Some(Self { line, handover, went: false })
    }

    /// Cancels this run when the first one is cancelled or its process is killed.
    pub(super) fn watch(&self, cancel: CancelToken) {
        // If no thread can be started for this, the run continues without it.
        let _ = self.line.watch(cancel);
    }

    /// Leaves the report of a failure to the first process; returns false if it is too late for that.
    pub(super) fn refuse(&mut self, failure: &Failure) -> bool {
        if !self.went {
            self.line.refuses(failure.message());
        }
        !self.went
    }

    /// Reports the exit status to the first process.
    pub(super) fn end(mut self, status: u8) {
        self.line.ended(status);
    }

    fn go(&mut self, streams: &mut Streams) -> Differs {
        self.went = true;
        self.line.goes();
        let Handover { stdout, stdin, .. } = &mut self.handover;
        codebox_streams::go_on(&mut streams.io, std::mem::take(stdout), std::mem::take(stdin))
    }
}

/// Executes a run, from arguments to a report.
///
/// Until the guest starts, `SIGINT` keeps its default action. The next start removes the leftovers of a killed process.
pub(super) fn attempt(
    args: RunArgs,
    streams: Streams,
    (voice, host): (Voice, &dyn Host),
    mut takeover: Option<&mut Takeover>,
) -> Result<Attempt, Failure> {
    let confinement = if args.no_confine { Confinement::Off } else { Confinement::On };
    let policy = host.policy()?;
    let engine = args.engine.clone().or_else(|| policy.engine.clone());
    let typed = args.typed_words();
    if args.warm == Some(0) {
        host.end_keepers()?;
    }
    let mut request = request(args, takeover.as_ref().and_then(|takeover| takeover.handover.program.clone()))?;
    if takeover.is_some() {
        request = request.in_container();
    }
    let admitted = admit(request, &policy, host.surroundings())?;
    if is_analyzed(admitted.job()) {
        // The analyzer starts here to run concurrently with the next steps, before this process confines itself and can
        // start no other process.
        host.analyzer()?.start_ahead();
    }
    let packages = host.packages(&admitted, engine.as_deref(), progress(voice).as_ref())?;
    packages.notes.iter().for_each(|note| voice.explain(note.clone()));
    let admitted = admitted.with_packages(&packages);
    // This runtime has no thread of its own, so it can be created before the process confines itself.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| no_runtime(&error))?;
    let backends = host.backends(engine.as_deref())?;
    let mut refused = Vec::new();
    let plan = loop {
        let plan = runtime.block_on(planned(&admitted, (&backends, &refused), policy.escalation, voice, host))?;
        match runtime.block_on(ensured(&admitted, &plan, voice, host)) {
            Ok(()) => break plan,
            // A job that can also run without a container tries the next backend; a job that needs or names a container
            // fails.
            Err(failure) if can_do_without(&admitted) => {
                let why = Unavailable { reason: failure.message().to_owned(), fix: "see codebox doctor".to_owned() };
                refused.push((plan.choice.backend.clone(), why));
            }
            Err(failure) => return Err(failure),
        }
    };
    let backend =
        backends.iter().find(|backend| backend.id() == plan.choice.backend).ok_or_else(|| lost_backend(&plan))?;
    let entry = noted(&admitted, &plan, host, takeover.as_deref())?;
    let taken = (&admitted, &plan, *backend, (entry.id(), typed));
    let mut attempt = carried_out(
        taken,
        (streams, runtime),
        (confinement, policy.escalation),
        (voice, host),
        takeover.as_deref_mut(),
    );
    if let Ok(Attempt::Done(done)) = &mut attempt {
        if let Some(needs) = &mut done.report.needs_escalation
            && !policy.isolations.contains(Isolation::Container)
        {
            needs.reason.push_str(" by the configuration");
            needs.command.clear();
        }
        done.report.id = Some(entry.id().to_owned());
        let reason = &mut done.report.provenance.reason;
        for note in &packages.notes {
            // The reason already contains the notes from preparing the packages, which can repeat a note about a build.
            if !reason.contains(note.as_str()) {
                *reason = format!("{reason}; {note}");
            }
        }
    }
    match &attempt {
        Ok(Attempt::Done(done)) => entry.end(done.report.result_kind(), done.report.exit_status()),
        // The other process records the end.
        Ok(Attempt::TakenOver(_)) => entry.pass_on(),
        Err(_) if takeover.is_some_and(|takeover| !takeover.went) => entry.pass_on(),
        Err(failure) => entry.end(failure.kind(), failure.exit_status()),
    }
    attempt
}

/// Records the job before it runs.
fn noted(
    admitted: &Admitted,
    plan: &Plan,
    host: &dyn Host,
    takeover: Option<&Takeover>,
) -> Result<codebox_service::Entry, Failure> {
    let job = admitted.job();
    let accepted = Accepted { source: &job.source, language: &job.language, backend: &plan.choice.backend };
    let journal = host.journal()?;
    Ok(match takeover {
        Some(takeover) => journal.resume(&takeover.handover.id, accepted)?,
        None => journal.accept(accepted)?,
    })
}

/// Executes a job that was admitted, planned and recorded.
fn carried_out(
    (admitted, plan, backend, (id, typed)): (&Admitted, &Plan, &dyn Backend, (&str, usize)),
    (mut streams, runtime): (Streams, tokio::runtime::Runtime),
    (confinement, escalation): (Confinement, Escalation),
    (voice, host): (Voice, &dyn Host),
    mut takeover: Option<&mut Takeover>,
) -> Result<Attempt, Failure> {
    // The other process starts concurrently with the next steps, which take longer.
    let standby = standby(admitted, plan, escalation, host);
    if plan.choice.isolation == Isolation::Wasm {
        // The call blocks, so it must not be made from an async task.
        host.catalog()?.ensure_language(&admitted.job().language, progress(voice).as_ref())?;
    }
    let provided = runtime.block_on(host.layers(admitted, plan, progress(voice).as_ref()))?;
    let Provided { layers, notes: told } = provided;
    told.iter().for_each(|note| voice.explain(note.clone()));
    let prepared = runtime.block_on(prepare(admitted, plan, backend, layers))?;
    let signals = Signals::heard();
    let walls = match host.confine(admitted, prepared.spec(), confinement) {
        Ok(walls) => walls,
        Err(failure) => {
            // Only the first failure is reported.
            let _closed = runtime.block_on(prepared.close());
            return Err(failure);
        }
    };
    signals.cancel(streams.io.cancel.clone());
    let differs = takeover.as_mut().map(|takeover| takeover.go(&mut streams));
    let revocable = standby.is_some().then(|| Revocable::of(&mut streams.io));
    let mut report = runtime.block_on(prepared.exec(&mut streams.io))?;
    revocable.iter().for_each(Revocable::freeze);
    if differs.is_some_and(|differs| differs.seen()) {
        voice.note("it printed something else when it was run again; what the first try had printed stands above");
    }
    report.enforcement.walls.extend(walls);
    told.iter().for_each(|note| report.provenance.reason = format!("{}; {note}", report.provenance.reason));
    if let Some(Takeover { handover: Handover { from, lacked, .. }, .. }) = takeover {
        mark_escalated(&mut report.provenance, BackendId::read(from.clone()), lacked);
    }
    match after(&report, admitted.job(), escalation) {
        After::Stay => {}
        After::Needs { lacked, why } => report.needs_escalation = Some(needs(&lacked, &why, typed, admitted)),
        After::Escalate(lacked) => {
            let line = (standby, revocable.as_ref(), &streams.io.cancel);
            match over((id, &report), admitted, line, &lacked) {
                Ok(Ended::With(status)) => return Ok(Attempt::TakenOver(status)),
                Ok(Ended::Lost) => return Err(lost_takeover()),
                Err(why) => report.needs_escalation = Some(needs(&lacked, &why, typed, admitted)),
            }
        }
    }
    revocable.into_iter().for_each(say_last_words);
    let delivery = streams.finish();
    // A thread may still be blocked on standard input; it ends with the process.
    runtime.shutdown_background();
    let out = admitted.out().cloned();
    Ok(Attempt::Done(Box::new(Done { report, out, delivery })))
}

/// Pulls the image of a run in a container if the engine lacks it.
async fn ensured(admitted: &Admitted, plan: &Plan, voice: Voice, host: &dyn Host) -> Result<(), Failure> {
    if plan.choice.isolation != Isolation::Container {
        return Ok(());
    }
    let image = admitted.container_image().map(ImageName::as_str);
    let language = &admitted.job().language;
    host.ensure_image(&plan.choice.backend, language, image, progress(voice).as_ref()).await
}

/// Returns true if the job could also run outside of a container.
fn can_do_without(admitted: &Admitted) -> bool {
    let job = admitted.job();
    job.isolations.contains(Isolation::Wasm)
        && admitted.container_image().is_none()
        && job.language != codebox_core::Language::Command
}

/// Starts a process that can run the command again in a container, if that may become necessary.
fn standby(admitted: &Admitted, plan: &Plan, escalation: Escalation, host: &dyn Host) -> Option<Standby> {
    let job = admitted.job();
    let possible = plan.choice.isolation == Isolation::Wasm
        && escalation == Escalation::Allowed
        && job.isolations.contains(Isolation::Container)
        && !matches!(job.language, codebox_core::Language::Named(_));
    // If the process cannot be started, the run continues without it, and the report names the features that were
    // missing.
    if possible && host.may_have_engine() { Standby::start(host.waiter()?).ok() } else { None }
}

/// Lets the standby process run the command again, and returns how that run ended, or the reason that it does not run.
fn over(
    (id, report): (&str, &RunReport),
    admitted: &Admitted,
    (standby, revocable, cancel): (Option<Standby>, Option<&Revocable>, &CancelToken),
    lacked: &str,
) -> Result<Ended, String> {
    let (Some(standby), Some(revocable)) = (standby, revocable) else {
        return Err("no container engine is here (see codebox doctor)".to_owned());
    };
    debug_assert_eq!(report.effects, Effects::None, "checked before");
    let stdin = revocable.read().ok_or(READ_TOO_MUCH)?;
    let program = match &admitted.job().source {
        codebox_core::Source::Stdin(text) => Some(text.clone()),
        _ => None,
    };
    let from = report.provenance.backend.to_string();
    let stdout = report.stdout.bytes().into_owned();
    let handover = Handover { id: id.to_owned(), from, lacked: lacked.to_owned(), stdout, stdin, program };
    standby.take_over(&handover, cancel, || revocable.discard())
}

fn needs(lacked: &str, why: &str, typed: usize, admitted: &Admitted) -> NeedsEscalation {
    let image = if admitted.container_image().is_some() { Image::Kept } else { Image::Dropped };
    unmet(lacked, why, again(typed, image))
}

/// Analyzes the program, and meanwhile loads the runtime's code, which does not depend on the result.
fn looked(admitted: &Admitted, host: &dyn Host) -> Result<Result<Looked, BadAsk>, Failure> {
    let (job, analyzer) = (admitted.job(), host.analyzer()?);
    let may_be_wasm = job.isolations.contains(Isolation::Wasm) && admitted.container_image().is_none();
    if !may_be_wasm || !is_analyzed(job) {
        return Ok(look(admitted, analyzer));
    }
    thread::scope(|scope| {
        // The scope joins this thread before the process confines itself.
        let looking = thread::Builder::new().spawn_scoped(scope, || look(admitted, analyzer));
        let Ok(looking) = looking else { return Ok(look(admitted, analyzer)) };
        host.load_ahead(&job.language);
        Ok(looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Chooses the backend and the image.
async fn planned(
    admitted: &Admitted,
    (backends, refused): (&[&dyn Backend], &[(BackendId, Unavailable)]),
    escalation: Escalation,
    voice: Voice,
    host: &dyn Host,
) -> Result<Plan, Failure> {
    let began = Instant::now();
    let looked = looked(admitted, host)?.map_err(PlanError::from)?;
    looked.unknown.iter().for_each(|why| voice.explain(why.clone()));
    let wanted = Wanted::of_admitted(admitted, &looked, escalation);
    let (_, choice) = choose(&wanted, backends, refused).await;
    voice.explain(format!("looked through and chosen in {} µs", began.elapsed().as_micros()));
    let choice = choice.map_err(PlanError::from)?;
    for other in &choice.rejected {
        voice.explain(format!("not {}: {}", other.candidate, other.reason));
    }
    let catalog = host.catalog()?;
    let facts = match choice.isolation {
        Isolation::Wasm => catalog.images(Some(&admitted.job().language))?.iter().map(|image| image.facts()).collect(),
        // Other isolations bring their own runtimes.
        Isolation::Container | Isolation::Vm => Vec::new(),
    };
    Ok(plan_of(admitted, &looked, choice, &facts)?)
}

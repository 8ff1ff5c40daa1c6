//! The stages of a run, in order.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use codebox_core::{
    Backend, BackendId, CancelToken, CodeScope, ExecIo, Handover, Isolation, NeedsEscalation, Outcome, Preparation,
    ResultKind, RunReport, RunnerError, SandboxLayer, SessionSpec, TrapKind,
};
use codebox_service::{
    Accepted, Admitted, Entry, Escalation, EscalationDecision, LayerTarget, PackageLayers, PackageNeeds, Plan,
    ProgramAnalysis, Request, TierRequirements, decide_escalation, escalation_hint, is_analyzed, mark_escalated,
    mark_rerun_with_all_code, missing_code,
};

use tracing::field::Empty;
use tracing::{Instrument as _, info_span};

use crate::audit::Refusal;
use crate::cancelled::{cancelled_before_choice, cancelled_before_start, unless_cancelled};
use crate::front_end::{FrontEnd, RunEnd, Standby};
use crate::open::OpenGuest;
use crate::rerun::{RUN_TWICE, Rerun, RerunStreams};
use crate::runner::Runner;
use crate::shaped::ShapedRun;
use crate::spans;

/// An admitted job with the analysis of its program.
pub(crate) struct AdmittedJob {
    pub admitted: Arc<Admitted>,
    pub analysis: ProgramAnalysis,
    pub requirements: TierRequirements,
    /// Start of the analysis.
    pub began: Instant,
}

/// Plan of a job, and the backend that it names.
pub(crate) struct PlannedJob<'j> {
    pub job: &'j AdmittedJob,
    pub plan: Arc<Plan>,
    pub backend: Arc<dyn Backend>,
    pub code: CodeScope,
    /// Code that is compiled before the job runs.
    pub compiled: CodeScope,
    /// Set if the job is the first of a session.
    pub session: Option<SessionSpec>,
    /// Image that the guest starts from, in place of the one of the plan.
    pub image: Option<String>,
}

/// An admitted job, and the backend that was chosen for it.
struct Chosen {
    job: AdmittedJob,
    plan: Plan,
    backend: Arc<dyn Backend>,
    packages: PackageNeeds,
}

impl PlannedJob<'_> {
    fn isolation(&self) -> Isolation {
        self.plan.choice.isolation
    }
}

impl Runner {
    /// Runs a job through all stages, each of which is a span.
    pub(crate) async fn execute(
        &self,
        request: Request,
        io: &mut ExecIo,
        front_end: &mut dyn FrontEnd,
    ) -> Result<RunEnd, RunnerError> {
        let span = spans::job();
        let shaped = match request.output_shape {
            None => None,
            Some(shape) => {
                let dir = self.parts.output_files.as_ref().map(|dir| dir.get()).transpose()?;
                let shaped = ShapedRun::start(shape, dir.map(PathBuf::as_path), io)?;
                front_end.resumes().into_iter().for_each(|handover| shaped.resume(&handover.stdout));
                Some(shaped)
            }
        };
        let mut ended = Box::pin(self.execute_stages(request, io, front_end)).instrument(span.clone()).await;
        if let Some(shaped) = shaped {
            shaped.finish(io, &mut ended, &*self.parts.progress);
        }
        spans::record_end(&span, &ended);
        ended
    }

    async fn execute_stages(
        &self,
        request: Request,
        io: &mut ExecIo,
        front_end: &mut dyn FrontEnd,
    ) -> Result<RunEnd, RunnerError> {
        if !request.returns.is_empty() {
            let line = "only cells of sessions return files";
            let fix = "use a directory for output files, or a session";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        let refusal = Refusal::of(&request);
        let planned = Box::pin(self.choose(request, io, front_end)).await;
        let Chosen { job, plan, backend, packages } = match planned {
            Ok(Ok(chosen)) => chosen,
            Ok(Err(cancelled)) => {
                // A dev container may have been started.
                self.record_refusal(&refusal, &RunnerError::new(ResultKind::Cancelled, "it was cancelled"));
                return Ok(cancelled);
            }
            Err(error) => {
                // The process that stood by repeats the request of a job that is recorded.
                if front_end.resumes().is_none() {
                    self.record_refusal(&refusal, &error);
                }
                return Err(error);
            }
        };
        let code = front_end.resumes().map_or(CodeScope::Image, |handover| handover.code);
        // A program that has called a tool does not run again with more code.
        let has_tools = !job.admitted.job().grants.tools.is_empty();
        let compiled = if has_tools { CodeScope::All } else { code };
        let mut planned =
            PlannedJob { job: &job, plan: Arc::new(plan), backend, code, compiled, session: None, image: None };
        front_end.planned(&job.admitted, &|| self.is_prepared(&planned))?;
        let entry = spans::blocking_stage(info_span!("record", outcome = Empty), || {
            self.record(&planned, front_end.resumes())
        })?;
        let unaudited = self.note_unaudited(entry.as_ref().and_then(Entry::audit_failure));
        let id = entry.as_ref().map(|entry| entry.id().to_owned());
        spans::record_plan(id.as_deref(), &planned.plan);
        let mut has_started = false;
        let mut ended = self.run_planned(&mut planned, id.as_deref(), io, front_end, &mut has_started).await;
        if let Ok(RunEnd::Report(report)) = &mut ended {
            annotate(report, &packages);
            (report.id, report.unaudited) = (id, unaudited);
        }
        if let Some(entry) = entry {
            let has_resumed = front_end.resumes().is_some();
            match &mut ended {
                Ok(RunEnd::Report(report)) => {
                    let failure = entry.end(report.result_kind(), front_end.exit_status(report), Some(report));
                    report.unaudited = report.unaudited.take().or_else(|| self.note_late(failure));
                }
                // The other process records the end.
                Ok(RunEnd::TakenOver(_)) => entry.hand_over_entry(),
                Err(_) if has_resumed && !has_started => entry.hand_over_entry(),
                Err(error) => drop(entry.end(error.kind(), error.exit_status(), None)),
            }
        }
        ended
    }

    /// Admits a request and chooses a backend for it; the end of the job as an inner error if it is cancelled meanwhile.
    async fn choose(
        &self,
        request: Request,
        io: &mut ExecIo,
        front_end: &mut dyn FrontEnd,
    ) -> Result<Result<Chosen, RunEnd>, RunnerError> {
        let (isolations, defaults) = (request.isolation.acceptable(), self.parts.policy.get()?.defaults);
        if request.target().is_some() {
            front_end.finds_container(io);
        }
        // Ends the programs that it has started before it returns.
        let request = match self.find_container(request, &io.cancel).await {
            Err(_) if io.cancel.is_cancelled() => return Ok(Err(cancelled_before_choice(isolations, defaults))),
            found => found?,
        };
        let admitted = self.admit_for_analysis(request).await?;
        front_end.admitted(&admitted)?;
        let (isolations, limits) = (admitted.job().isolations, admitted.job().limits);
        let Some((admitted, packages)) = unless_cancelled(&io.cancel, self.with_packages(admitted)).await? else {
            return Ok(Err(cancelled_before_choice(isolations, limits)));
        };
        packages.notes.iter().for_each(|note| self.parts.progress.detail(note));
        // The analysis is short and bounded. Its thread would outlive a cancelled job, and those of many would add up.
        let job = self.analyze_job(admitted).await?;
        Ok(match unless_cancelled(&io.cancel, self.select(&job)).await? {
            Some((plan, backend)) => Ok(Chosen { job, plan, backend, packages }),
            None => Err(cancelled_before_choice(isolations, limits)),
        })
    }

    /// Admits a request, and records one that is refused.
    pub(crate) async fn admit_stage(&self, request: Request) -> Result<Arc<Admitted>, RunnerError> {
        let refusal = Refusal::of(&request);
        self.admit_unrecorded(request).await.inspect_err(|error| self.record_refusal(&refusal, error))
    }

    async fn admit_unrecorded(&self, request: Request) -> Result<Arc<Admitted>, RunnerError> {
        let admitted = Box::pin(spans::stage(info_span!("admit", outcome = Empty), self.admit(request))).await;
        admitted.map(Arc::new)
    }

    /// Admits the request of the first cell of a session as [`admit_for_analysis`](Self::admit_for_analysis) does, and records one that
    /// is refused.
    pub(crate) async fn admit_first(&self, request: Request) -> Result<Arc<Admitted>, RunnerError> {
        let refusal = Refusal::of(&request);
        self.admit_for_analysis(request).await.inspect_err(|error| self.record_refusal(&refusal, error))
    }

    /// Admits a request, and starts the analyzer if the job needs it. One that is refused is not recorded.
    pub(crate) async fn admit_for_analysis(&self, request: Request) -> Result<Arc<Admitted>, RunnerError> {
        let admitted = self.admit_unrecorded(request).await?;
        if is_analyzed(admitted.job()) {
            // The analyzer starts here to run concurrently with the next steps, before this process confines itself and
            // can start no other process.
            self.parts.analyzer.get()?.prestart();
        }
        Ok(admitted)
    }

    /// Resolves the packages of an admitted job.
    pub(crate) async fn with_packages(
        &self,
        admitted: Arc<Admitted>,
    ) -> Result<(Arc<Admitted>, PackageNeeds), RunnerError> {
        let Some(packages) = &self.parts.packages else {
            return match admitted.job().packages.first() {
                None => Ok((admitted, PackageNeeds::default())),
                Some(package) => {
                    let line = format!("cannot install the package {package}: this runner has no package provider");
                    Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("add one to the runner's builder"))
                }
            };
        };
        let provider = Arc::clone(packages.get()?);
        if !provider.may_be_requested(&admitted) {
            return Ok((admitted, PackageNeeds::default()));
        }
        let engines = self.engines_for(&admitted)?;
        let (shared, progress) = (Arc::clone(&admitted), Arc::clone(&self.parts.progress));
        let resolve = async move || {
            let engines: Vec<&dyn Backend> = engines.iter().map(|engine| &**engine).collect();
            provider.resolve(&shared, &engines, &*progress).await
        };
        let span = info_span!("resolve_packages", requested = admitted.job().packages.len(), outcome = Empty);
        let needs = spans::stage(span, async { self.parts.threads.block_on(resolve).await? }).await?;
        Ok((Arc::new(Arc::unwrap_or_clone(admitted).with_packages(&needs)), needs))
    }

    /// Returns the engines of containers that a job may use.
    pub(crate) fn engines_for(&self, admitted: &Admitted) -> Result<Vec<Arc<dyn Backend>>, RunnerError> {
        let mut engines = self.backends_for(admitted.engine())?;
        engines.retain(|backend| backend.isolation() == Isolation::Container);
        Ok(engines)
    }

    /// Analyzes an admitted job.
    pub(crate) async fn analyze_job(&self, admitted: Arc<Admitted>) -> Result<AdmittedJob, RunnerError> {
        let began = Instant::now();
        let span = info_span!("analyze", imports = Empty, outcome = Empty);
        let analysis = spans::stage(span.clone(), self.analyze(&admitted)).await?;
        span.record("imports", analysis.needs.imports.len());
        let requirements = TierRequirements::for_admitted(&admitted, &analysis, self.parts.policy.get()?.escalation);
        Ok(AdmittedJob { admitted, analysis, requirements, began })
    }

    /// Records the job before it runs.
    fn record(&self, planned: &PlannedJob<'_>, resumed: Option<&Handover>) -> Result<Option<Entry>, RunnerError> {
        let (job, backend) = (planned.job.admitted.job(), &planned.plan.choice.backend);
        let (attachment, tool) = (planned.job.admitted.attachment(), planned.job.admitted.tool());
        let Some(journal) = self.journal()? else { return Ok(None) };
        let (journal, accepted) = (journal, Accepted { job, backend, attachment, tool });
        Ok(Some(match resumed {
            Some(handover) => journal.resume(&handover.id, accepted)?,
            None => journal.accept(accepted)?,
        }))
    }

    /// Prepares, opens and runs a planned job, and runs it again in a container if it turns out to need one.
    async fn run_planned(
        &self,
        planned: &mut PlannedJob<'_>,
        id: Option<&str>,
        io: &mut ExecIo,
        front_end: &mut dyn FrontEnd,
        has_started: &mut bool,
    ) -> Result<RunEnd, RunnerError> {
        let admitted = &planned.job.admitted;
        // The other process starts concurrently with the next steps, which take longer.
        let is_first_run = front_end.resumes().is_none();
        let may_rerun = is_first_run && self.may_rerun(planned)?;
        let standby = if may_rerun { front_end.standby() } else { Standby::Unavailable };
        let can_rerun = match standby {
            Standby::Unavailable => false,
            Standby::Process(_) => planned.job.admitted.is_repeatable(),
            Standby::InProcess => true,
        };
        if may_rerun && !can_rerun {
            // The job must find all code.
            planned.compiled = CodeScope::All;
        }
        let planned = &*planned;
        let Some(prepared) = self.prepare(planned, &io.cancel).await? else {
            return Ok(cancelled_before_start(planned));
        };
        let (guest, notes) = prepared;
        front_end.opened();
        let span = info_span!("confine", outcome = Empty);
        let layers = match spans::blocking_stage(span, || self.confine(planned, &guest)) {
            Ok(layers) => layers,
            Err(error) => {
                // Only the first error is reported.
                let _closed = guest.close().await;
                return Err(error);
            }
        };
        front_end.starting(io);
        *has_started = true;
        let held = RerunStreams::of(io, &standby);
        let mut report = self.exec(guest, io).await?;
        held.freeze();
        report.enforcement.layers.extend(layers);
        match front_end.resumes() {
            Some(Handover { code: CodeScope::All, .. }) => mark_rerun_with_all_code(&mut report.provenance),
            Some(Handover { from, missing, .. }) => {
                mark_escalated(&mut report.provenance, BackendId::from_string(from.clone()), missing);
            }
            None => {}
        }
        for note in &notes {
            report.provenance.reason = format!("{}; {note}", report.provenance.reason);
        }
        let decision = decide_escalation(&report, admitted.job(), self.parts.policy.get()?.escalation);
        let (missing, code, mut why) = match decision {
            EscalationDecision::Keep => (String::new(), None, None),
            EscalationDecision::Needs { missing, why } => (missing, Some(CodeScope::Image), Some(why)),
            EscalationDecision::Escalate(missing) => (missing, Some(CodeScope::Image), None),
            // A guest with all code has called a null pointer.
            EscalationDecision::LoadAllCode | EscalationDecision::LacksCode(_) if planned.code == CodeScope::All => {
                (String::new(), None, None)
            }
            EscalationDecision::LacksCode(why) => (String::new(), Some(CodeScope::All), Some(why)),
            EscalationDecision::LoadAllCode => (String::new(), Some(CodeScope::All), None),
        };
        if let (Some(code), None) = (code, &why) {
            let (job, cancel) = (planned.job, &io.cancel);
            if report.outcome == Outcome::Trapped(TrapKind::MissingCode) {
                let language = admitted.job().language.runtime_language().as_str();
                let note =
                    format!("the program needs more code of {language}; it runs again from its start with all code");
                self.parts.progress.note(&note);
            }
            let rerun = Rerun { job, id, report: &report, missing: &missing, code, is_first_run, cancel };
            // The names of the features come from the guest.
            let span = info_span!("rerun", missing_features = report.missing.len(), outcome = Empty);
            match self.rerun(rerun, standby, &held).instrument(span.clone()).await {
                Ok(mut ended) => {
                    spans::record_outcome(&span, &ended);
                    if let (Ok(RunEnd::Report(second)), CodeScope::All) = (&mut ended, code) {
                        self.hint_after_second_run(second, admitted, front_end)?;
                    }
                    return ended;
                }
                Err(_) if io.cancel.is_cancelled() => {
                    span.record("outcome", "cancelled");
                    report.outcome = Outcome::Cancelled;
                    held.release(front_end.release_timeout(&report)).await;
                    return Ok(RunEnd::Report(Box::new(report)));
                }
                Err(reason) => {
                    span.record("outcome", "not possible");
                    why = Some(reason);
                }
            }
        }
        held.release(front_end.release_timeout(&report)).await;
        match (code, why) {
            (Some(CodeScope::Image), Some(why)) => {
                report.needs_escalation = Some(self.escalation_hint(&missing, &why, front_end, admitted));
            }
            (Some(CodeScope::All), Some(why)) if report.outcome == Outcome::Trapped(TrapKind::MissingCode) => {
                report.missing.push(missing_code(admitted.job().language.runtime_language().as_str(), &why));
            }
            _ => {}
        }
        Ok(RunEnd::Report(Box::new(report)))
    }

    /// Adds the features that the second run of a job lacked, which is not run a third time, to its report.
    fn hint_after_second_run(
        &self,
        report: &mut RunReport,
        admitted: &Admitted,
        front_end: &dyn FrontEnd,
    ) -> Result<(), RunnerError> {
        let decision = decide_escalation(report, admitted.job(), self.parts.policy.get()?.escalation);
        let (missing, why) = match decision {
            EscalationDecision::Needs { missing, why } => (missing, why),
            EscalationDecision::Escalate(missing) => (missing, RUN_TWICE.to_owned()),
            EscalationDecision::Keep | EscalationDecision::LoadAllCode | EscalationDecision::LacksCode(_) => {
                return Ok(());
            }
        };
        report.needs_escalation = Some(self.escalation_hint(&missing, &why, front_end, admitted));
        Ok(())
    }

    /// Returns true if a job may have to be run again, and that may be possible: in a container, or with code that is not
    /// compiled yet.
    fn may_rerun(&self, planned: &PlannedJob<'_>) -> Result<bool, RunnerError> {
        let job = planned.job.admitted.job();
        if planned.isolation() != Isolation::Wasm || !job.grants.tools.is_empty() {
            return Ok(false);
        }
        let is_possible = |engine: &Arc<dyn Backend>| {
            let isolation = engine.isolation();
            isolation != Isolation::Wasm && job.isolations.contains(isolation) && engine.may_be_available()
        };
        let can_escalate = self.parts.policy.get()?.escalation == Escalation::Allowed
            && job.language.spec().container.is_some()
            && self.backends_for(planned.job.admitted.engine())?.iter().any(is_possible);
        Ok(can_escalate || !self.is_complete(&job.language)?)
    }

    /// Returns true if the files of the runtime with which a planned job starts are there.
    fn is_prepared(&self, planned: &PlannedJob<'_>) -> Result<bool, RunnerError> {
        let language = planned.job.admitted.job().language.runtime_language();
        if language.spec().is_module {
            return Ok(true);
        }
        let required = Preparation::of(&planned.plan.image.name, planned.compiled);
        Ok(planned.isolation() != Isolation::Wasm || self.parts.catalog.get()?.is_ready(language, required))
    }

    /// Prepares the runtime and the packages of a job, and opens its guest. Also returns the notes about the packages.
    /// `None` if the job is cancelled meanwhile.
    pub(crate) async fn prepare(
        &self,
        planned: &PlannedJob<'_>,
        cancel: &CancelToken,
    ) -> Result<Option<(OpenGuest, Vec<String>)>, RunnerError> {
        spans::stage(info_span!("prepare", outcome = Empty), self.prepare_stages(planned, cancel)).await
    }

    async fn prepare_stages(
        &self,
        planned: &PlannedJob<'_>,
        cancel: &CancelToken,
    ) -> Result<Option<(OpenGuest, Vec<String>)>, RunnerError> {
        let Some(PackageLayers { layers, notes }) = unless_cancelled(cancel, self.install(planned)).await? else {
            return Ok(None);
        };
        notes.iter().for_each(|note| self.parts.progress.detail(note));
        let span = info_span!("open", backend = planned.plan.choice.backend.as_str(), outcome = Empty);
        let image = self.automatic_image(planned, &layers);
        let opened = async {
            if image.is_some() {
                // An image that is being replaced or removed is not waited for.
                let opened = OpenGuest::open(planned, layers.clone(), image).await;
                if let Ok(guest) = opened {
                    return Ok(guest);
                }
            }
            Ok(OpenGuest::open(planned, layers, planned.image.clone()).await?)
        };
        // A guest in this process opens at once, and reports a cancellation itself.
        let guest = unless_cancelled(cancel, spans::stage(span, opened)).await?;
        Ok(guest.map(|guest| (guest, notes)))
    }

    /// Installs the runtime and the packages of a job, unless they are there.
    pub(crate) async fn install(&self, planned: &PlannedJob<'_>) -> Result<PackageLayers, RunnerError> {
        if planned.isolation() == Isolation::Wasm {
            let language = &planned.job.admitted.job().language;
            let span = info_span!("ensure_runtime", language = language.as_str(), outcome = Empty);
            let image = planned.image.as_deref().unwrap_or(&planned.plan.image.name);
            let required = Preparation::of(image, planned.compiled);
            spans::stage(span, self.ensure_runtime(language, required)).await?;
        }
        let span = info_span!("package_layers", layers = Empty, outcome = Empty);
        let packages = spans::stage(span.clone(), self.package_layers(planned)).await?;
        span.record("layers", packages.layers.len());
        Ok(packages)
    }

    /// Runs the program of an open guest.
    pub(crate) async fn exec(&self, guest: OpenGuest, io: &mut ExecIo) -> Result<RunReport, RunnerError> {
        let span = info_span!(
            "exec",
            image = Empty,
            job_result = Empty,
            stdout_bytes = Empty,
            stderr_bytes = Empty,
            outcome = Empty,
        );
        let executed = async {
            let tools = self.start_tools(guest.job(), io);
            let mut report = guest.exec(io).await?;
            if let Some(tools) = &tools {
                tools.report(&mut report);
            }
            spans::record_result(&report);
            Ok(report)
        };
        spans::stage(span, executed).await
    }

    /// Returns the layers of a job's packages, and in a container those of the modules that it imports.
    async fn package_layers(&self, planned: &PlannedJob<'_>) -> Result<PackageLayers, RunnerError> {
        let Some(packages) = &self.parts.packages else { return Ok(PackageLayers::default()) };
        let provider = Arc::clone(packages.get()?);
        let admitted = Arc::clone(&planned.job.admitted);
        let is_in_wasm = planned.isolation() == Isolation::Wasm;
        if !provider.may_be_requested(&admitted) && (is_in_wasm || planned.plan.imports.is_empty()) {
            return Ok(PackageLayers::default());
        }
        let (plan, engine) = (Arc::clone(&planned.plan), Arc::clone(&planned.backend));
        let progress = Arc::clone(&self.parts.progress);
        let layers = async move || {
            let target = match is_in_wasm {
                true => LayerTarget::Wasm,
                false => LayerTarget::Container { engine: &*engine, imports: &plan.imports },
            };
            provider.layers(&admitted, target, &*progress).await
        };
        self.parts.threads.block_on(layers).await?
    }

    /// Confines the process for a guest in WebAssembly, if this runner confines it at all.
    fn confine(&self, planned: &PlannedJob<'_>, guest: &OpenGuest) -> Result<Vec<SandboxLayer>, RunnerError> {
        match &self.parts.confinement {
            Some(confinement) if planned.isolation() == Isolation::Wasm => {
                confinement.confine(&planned.job.admitted, guest.spec())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the hint of a job that lacks features, with the command that reruns it where the policy allows that. A job with secrets
    /// cannot be rerun.
    fn escalation_hint(
        &self,
        missing: &str,
        why: &str,
        front_end: &dyn FrontEnd,
        admitted: &Admitted,
    ) -> NeedsEscalation {
        let allows = |isolation| self.parts.policy.get().is_ok_and(|policy| policy.isolations.contains(isolation));
        let allowed = [Isolation::Container, Isolation::Vm].into_iter().find(|isolation| allows(*isolation));
        let command = allowed
            .filter(|_| admitted.job().grants.secrets.is_empty())
            .map_or_else(String::new, |isolation| front_end.rerun_hint(admitted, isolation));
        let mut hint = escalation_hint(missing, why, command);
        if allowed.is_none() {
            hint.reason.push_str(" by the configuration");
        }
        hint
    }
}

/// Adds the notes about packages to a report.
fn annotate(report: &mut RunReport, packages: &PackageNeeds) {
    let reason = &mut report.provenance.reason;
    for note in &packages.notes {
        // The reason already contains the notes from preparing the packages, which can repeat a note about a build.
        if !reason.contains(note.as_str()) {
            *reason = format!("{reason}; {note}");
        }
    }
}

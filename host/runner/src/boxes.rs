//! Boxes: containers in which many commands run.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use codebox_core::{
    BackendError, BackendId, BoxCommand, BoxFacts, BoxInstance, BoxSettings, CancelToken, CodeScope, CommandEnd,
    CommandEvent, CommandInput, Effects, GuestError, Isolation, IsolationSet, Job, Limit, LimitKind, Limits, NotRun,
    Outcome, ResultKind, RunReport, RunnerError, RunningCommand, ShimCall, Source, ToolName, Usage, is_box_name,
};
use codebox_service::audit::BoxAction;
use codebox_service::{Accepted, Admitted, CellEntry, Preference, Program, Request, audit};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tracing::field::Empty;
use tracing::info_span;

use crate::attach::refuse_settings_of_runs;
use crate::audit::Refusal;
use crate::offload::block_on;
use crate::open::spec_of;
use crate::output::{LimitedOutput, SpillFile};
use crate::pipeline::PlannedJob;
use crate::runner::Runner;
use crate::spans;

mod call_budget;
mod process;

use call_budget::CallBudget;
pub use process::{BoxControl, BoxIo, BoxLogEntry, BoxStart, NoBoxes};

/// Number of commands whose files with the whole output are kept.
const KEPT_COMMANDS: u64 = 16;

/// Limit on the processes of a box: more than for a job, because commands run side by side.
const PROCESSES: NonZeroU32 = NonZeroU32::new(1024).expect("not zero");

/// Limit on the open files of a process of a box, enough for the agent and a thousand commands at once.
const OPEN_FILES: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");

/// Time for the agent to report the end of a command after its time limit or a kill. An agent that does not answer, as in a
/// container that the engine has paused, must not keep the caller.
const END_TIME: Duration = Duration::from_secs(2);

const SIGKILL: u8 = 9;

/// Container that runs commands until it is stopped, many at once if requested.
///
/// The files of one command are there for the next. Processes that a command leaves in the background go on. The limits on wall-clock
/// time and output apply to each command, all others to the box. The processes of a box that is dropped are killed.
pub struct CommandBox {
    runner: Arc<Runner>,
    admitted: Arc<Admitted>,
    backend: BackendId,
    instance: Box<dyn BoxInstance>,
    settings: BoxSettings,
    /// Name in the audit log.
    name: String,
    /// Directory for output of which the caller gets a part.
    spill_dir: Option<PathBuf>,
    next_number: AtomicU64,
    call_budget: Mutex<CallBudget>,
}

/// Live input and output of a command, and its cancellation.
#[derive(Default)]
pub struct CommandIo {
    /// Standard input; `None` for an empty one. The end of the channel is the end of the input.
    pub stdin: Option<mpsc::Receiver<Vec<u8>>>,
    /// Signals, and sizes of the terminal.
    pub control: Option<mpsc::Receiver<CommandInput>>,
    /// Receiver of the output, 0 for standard output and 1 for standard error, within the limits of the box on output. The command waits
    /// while it is full.
    pub output: Option<mpsc::Sender<(usize, Vec<u8>)>>,
    /// Kills the process group of the command.
    pub cancel: CancelToken,
    /// Use of the limits of the box on output.
    pub shaping: Shaping,
    /// Tool that the command implements, which the audit log names.
    pub tool: Option<ToolName>,
}

/// Use of the limits of a box on output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shaping {
    /// As the settings of the box say.
    #[default]
    Settings,
    /// Not for this command.
    Off,
}

impl Runner {
    /// Starts a box with the grants, limits and image of a request. Its program is ignored.
    ///
    /// # Errors
    /// Returns an error if the request is not admitted, if it requires something that boxes do not have, or if the container cannot
    /// be started.
    pub async fn start_box<R>(self: &Arc<Self>, request: R, settings: BoxSettings) -> Result<CommandBox, RunnerError>
    where
        R: TryInto<Request>,
        RunnerError: From<R::Error>,
    {
        let span = info_span!("start_box", backend = Empty, outcome = Empty);
        let request = self.box_request(request.try_into()?)?;
        spans::stage(span, self.start_box_stages(request, settings)).await
    }

    async fn start_box_stages(
        self: &Arc<Self>,
        request: Request,
        mut settings: BoxSettings,
    ) -> Result<CommandBox, RunnerError> {
        let refusal = Refusal::of(&request);
        let admitted = self.admit_stage(request).await?;
        let recorded = |error: &RunnerError| self.record_refusal(&refusal, error);
        let (admitted, packages) = self.with_packages(admitted).await.inspect_err(recorded)?;
        packages.notes.iter().for_each(|note| self.parts.progress.detail(note));
        let job = self.analyze_job(admitted).await?;
        let (plan, backend) = self.select(&job).await.inspect_err(recorded)?;
        let boxes = backend.boxes().ok_or_else(|| {
            let line = format!("{} has no boxes", plan.choice.backend);
            RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use podman or docker")
        })?;
        let planned = PlannedJob {
            job: &job,
            plan: Arc::new(plan),
            backend: Arc::clone(&backend),
            code: CodeScope::Image,
            compiled: CodeScope::Image,
            session: None,
            image: None,
        };
        let layers = self.install(&planned).await?;
        let spec = spec_of(&job.admitted, &planned.plan, layers.layers, CodeScope::Image);
        for (name, value) in &job.admitted.job().env {
            settings.env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let name = settings.name.clone().unwrap_or_else(|| format!("box-{:08x}", rand::random::<u32>()));
        if !is_box_name(&name) {
            let line = format!("{name:?} is not the name of a box");
            let fix = "use 2 to 63 letters, digits, '_', '.' and '-', and not codebox- at the beginning";
            return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix));
        }
        settings.name = Some(name.clone());
        // Before the box starts, so that a log that must record it can refuse it.
        let image = job.admitted.container_image().map(ToString::to_string);
        let (of, backend_id) = (job.admitted.job(), &planned.plan.choice.backend);
        self.audit_box_start(&name, audit::BoxStarted::new(of, image, backend_id))?;
        let instance = boxes.open(&spec, &settings).await?;
        let (admitted, backend) = (Arc::clone(&job.admitted), planned.plan.choice.backend.clone());
        Ok(CommandBox {
            runner: Arc::clone(self),
            admitted,
            backend,
            instance,
            settings,
            name,
            spill_dir: None,
            next_number: AtomicU64::new(0),
            call_budget: Mutex::new(CallBudget::new(Instant::now())),
        })
    }

    /// Admits the request of a box that another process keeps, blocking the calling thread. Returns the job with its grants and limits.
    ///
    /// # Errors
    /// As for [`start_box`](Self::start_box), without those of the container.
    pub fn prepare_box(&self, request: Request) -> Result<Job, RunnerError> {
        let request = self.box_request(request)?;
        block_on(async { Ok(self.admit_stage(request).await?.job().clone()) })?
    }

    /// Checks a request for a box, and adds its own limits.
    fn box_request(&self, request: Request) -> Result<Request, RunnerError> {
        let refusal = Refusal::of(&request);
        let checked = box_request(request).inspect_err(|error| self.record_refusal(&refusal, error))?;
        self.with_own_limits(checked)
    }

    /// Sets the limits on open files and processes of a box, unless the request or the operator has them. That on open files applies to the
    /// agent as well, which has several for each command that runs.
    fn with_own_limits(&self, mut request: Request) -> Result<Request, RunnerError> {
        let policy = self.parts.policy.get()?;
        if request.limits.open_files.is_none() && policy.defaults.open_files == Limits::default().open_files {
            let wanted = Limits { open_files: Limit::At(OPEN_FILES), ..Limits::unlimited() };
            request.limits.open_files = Some(wanted.min(policy.ceilings).open_files);
        }
        if request.limits.processes.is_none() && policy.defaults.processes == Limits::default().processes {
            let wanted = Limits { processes: Limit::At(PROCESSES), ..Limits::unlimited() };
            request.limits.processes = Some(wanted.min(policy.ceilings).processes);
        }
        Ok(request)
    }
}

/// Checks a request for a box.
fn box_request(request: Request) -> Result<Request, RunnerError> {
    refuse_settings_of_runs(&request, "a box")?;
    let refused = |what: &str, fix: &str| {
        let line = format!("cannot start a box: {what}");
        Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix(fix))
    };
    let acceptable = request.isolation.acceptable();
    let isolations = [Isolation::Container, Isolation::Vm].into_iter().filter(|one| acceptable.contains(*one));
    let Some(isolations) = IsolationSet::of(isolations) else {
        return refused("a box is a container, and the request does not accept one", "allow container or vm");
    };
    if request.out.is_some() || !request.files.is_empty() || !request.args.is_empty() || !request.returns.is_empty() {
        return refused("it has no files and no arguments of its own", "grant a directory");
    }
    if !request.tools.is_empty() || !request.secrets.is_empty() {
        return refused("it has neither host tools nor secrets", "use a session");
    }
    if request.limits.cpu.is_some() {
        return refused("the limit on processor time cannot be enforced for single commands", "use --timeout");
    }
    Ok(Request {
        isolation: Preference::Among(isolations),
        program: Program::Command(vec!["box".to_owned()]),
        ..request
    })
}

impl CommandBox {
    /// Sets the directory for output of which the caller gets a part. Without one, the rest of such output is lost.
    #[must_use]
    pub fn spilling_to(self, dir: PathBuf) -> Self {
        Self { spill_dir: Some(dir), ..self }
    }

    /// Returns the name of the box, which is that of its container.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns facts about the box.
    #[must_use]
    pub fn facts(&self) -> &BoxFacts {
        self.instance.facts()
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Returns an error if the command must be recorded and cannot be, or if the box has ended. A failure of the command is part of
    /// the report.
    pub async fn exec(&self, mut command: BoxCommand, io: &mut CommandIo) -> Result<RunReport, RunnerError> {
        let limits = self.admitted.job().limits;
        let of_name = command.argv.first().and_then(|word| self.settings.rules.wall_of(word));
        let wall = [command.wall, limits.wall.at(), of_name].into_iter().flatten().min();
        command.wall = wall;
        let (entry, unaudited) = self.record(&command, io.tool.as_ref())?;
        let mut ran = self.run(command, io).await;
        if let Ok(report) = &mut ran {
            (report.id, report.unaudited) = (entry.as_ref().map(|entry| entry.id().to_owned()), unaudited);
        }
        if let Some(entry) = entry {
            let (kind, status, report) = match &ran {
                Ok(report) => (report.result_kind(), report.exit_status(), Some(report)),
                Err(error) => (error.kind(), error.exit_status(), None),
            };
            // The caller does not wait for it.
            drop(spawn_blocking(entry.end(kind, status, report)));
        }
        ran
    }

    /// Records a command in the audit log. Returns the reason as well if that fails.
    fn record(
        &self,
        command: &BoxCommand,
        tool: Option<&ToolName>,
    ) -> Result<(Option<CellEntry>, Option<String>), RunnerError> {
        let Some(journal) = self.runner.journal()? else { return Ok((None, None)) };
        let words = command.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let mut job = self.admitted.job().clone();
        job.source = Source::Command(words);
        // Their values are masked in its text; the log has none of them.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        job.env.extend(command.env.iter().map(|(name, value)| (text(name), text(value))));
        let accepted = Accepted { job: &job, backend: &self.backend, attachment: None, tool };
        let (entry, failure) = journal.accept_command(&self.name, accepted)?;
        Ok((Some(entry), self.runner.note_unaudited(failure.as_ref())))
    }

    /// Records a call of a command with a shim in the audit log. Of calls that come faster than one in a second, the log has the first
    /// ten thousand, and the number of the others. `masked` returns a text in which secrets are masked.
    ///
    /// # Errors
    /// Returns an error if the log must record it and cannot.
    pub fn record_shim_call(&self, call: &ShimCall, masked: &dyn Fn(&str) -> String) -> Result<(), RunnerError> {
        let Some(journal) = self.runner.journal()? else { return Ok(()) };
        let Some(omitted) = self.call_budget().take(Instant::now()) else { return Ok(()) };
        let call = Some(audit::CommandCall::of(call, masked));
        let event =
            audit::Event::Box { name: self.name.clone(), action: BoxAction::Called, start: None, call, omitted };
        let failure = journal.audit(&event)?;
        if self.runner.note_unaudited(failure.as_ref()).is_some() {
            self.call_budget().add_omitted(omitted + 1);
        }
        Ok(())
    }

    async fn run(&self, command: BoxCommand, io: &mut CommandIo) -> Result<RunReport, RunnerError> {
        let mut limits = self.admitted.job().limits;
        limits.wall = command.wall.map_or(limits.wall, Limit::At);
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let is_terminal = command.terminal.is_some();
        let began = Instant::now();
        let deadline = command.wall.and_then(|wall| began.checked_add(wall));
        let mut running = self.instance.start(command).await?;
        let is_shaped = io.shaping == Shaping::Settings
            && self.settings.truncation != codebox_core::Truncation::Off
            // A person reads a terminal.
            && !is_terminal;
        let shape = is_shaped.then_some(self.settings.shape);
        let output = |kind: &str| {
            let spill = self.spill_dir.as_ref().map(|dir| SpillFile::New(dir.join(format!("{number}.{kind}"))));
            LimitedOutput::new(limits.output, shape, spill, io.output.is_none())
        };
        let mut outputs = [output("stdout"), output("stderr")];
        let mut stop = None;
        let (mut stopped, mut last_event) = (None, began);
        let (mut stdin, mut control) = (io.stdin.take(), io.control.take());
        if stdin.is_none() {
            running.send(CommandInput::End).await;
        }
        let mut sending: Option<codebox_core::BoxFuture<'static, ()>> = None;
        let end = loop {
            let is_sending = sending.is_some();
            if stop.is_some() {
                stopped.get_or_insert_with(Instant::now);
            }
            // A caller that reads slowly delays events, so the time runs from the last one.
            let end_by = stopped.or(deadline.map(|deadline| deadline.max(last_event))).map(|from| from + END_TIME);
            let next = tokio::select! {
                biased;
                () = io.cancel.cancelled(), if stop.is_none() => Next::Cancelled,
                () = async { if let Some(sending) = &mut sending { sending.await } }, if is_sending => Next::Sent,
                next = receive(&mut control) => Next::Control(next),
                bytes = receive(&mut stdin), if !is_sending => Next::Input(bytes),
                event = running.event() => Next::Event(event),
                () = wait_until(end_by) => Next::NoAnswer,
            };
            match next {
                Next::Cancelled => {
                    stop = Some(Outcome::Cancelled);
                    running.send(CommandInput::Signal(SIGKILL)).await;
                }
                Next::Sent => sending = None,
                Next::Control(Some(next)) => running.send(next).await,
                Next::Control(None) => control = None,
                Next::Input(Some(bytes)) => sending = Some(running.send(CommandInput::Bytes(bytes))),
                Next::Input(None) => {
                    stdin = None;
                    sending = Some(running.send(CommandInput::End));
                }
                Next::Event(Ok(CommandEvent::Output(stream, bytes))) => {
                    let written = outputs[stream.min(1)].write(&bytes);
                    if written.is_flood && stop.is_none() {
                        stop = Some(Outcome::LimitHit(LimitKind::Output));
                        running.send(CommandInput::Signal(SIGKILL)).await;
                    }
                    deliver(&mut *running, io, stream.min(1), written.shown, &mut stop).await;
                    last_event = Instant::now();
                }
                Next::Event(Ok(CommandEvent::Ended(end))) => break end,
                Next::Event(Err(error)) => return Err(error.into()),
                Next::NoAnswer => {
                    let outcome = Outcome::LimitHit(LimitKind::Wall);
                    let usage = Usage { wall: began.elapsed(), ..Usage::default() };
                    break CommandEnd { outcome, usage, not_run: None };
                }
            }
        };
        for (stream, output) in outputs.iter_mut().enumerate() {
            let rest = output.finish();
            deliver(&mut *running, io, stream, rest, &mut stop).await;
        }
        let facts = self.instance.facts();
        let mut report = RunReport::new(stop.unwrap_or(end.outcome), facts.provenance.clone(), limits);
        report.provenance.reason = "the command runs in a box".to_owned();
        report.usage = Usage { ..end.usage };
        report.effects = Effects::Possible;
        report.enforcement = facts.enforcement.clone();
        report.error = end.not_run.map(|not_run| guest_error(&not_run));
        if let Some(dir) = &self.spill_dir
            && let Some(earlier) = number.checked_sub(KEPT_COMMANDS)
        {
            for kind in ["stdout", "stderr"] {
                let _ = std::fs::remove_file(dir.join(format!("{earlier}.{kind}")));
            }
        }
        let [stdout, stderr] = outputs;
        for (output, name) in [(&stdout, "stdout"), (&stderr, "stderr")] {
            report.spilled.extend(output.spilled(name));
        }
        (report.stdout, report.stderr) = (stdout.captured(), stderr.captured());
        Ok(report)
    }

    /// Returns the next call of a command with a shim; `None` once the box has ended. Cancel safe.
    pub async fn next_shim_call(&self) -> Option<ShimCall> {
        self.instance.next_shim_call().await
    }

    /// Waits for the end of the box and returns its reason.
    pub async fn ended(&self) -> String {
        self.instance.ended().await
    }

    /// Ends the box and all its processes, and removes its container.
    ///
    /// # Errors
    /// Returns an error if the container cannot be removed.
    pub async fn stop(self) -> Result<(), RunnerError> {
        let omitted = self.call_budget().omitted();
        self.instance.close().await?;
        self.runner.audit_box_end(&self.name, omitted)
    }

    fn call_budget(&self) -> std::sync::MutexGuard<'_, CallBudget> {
        self.call_budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Next {
    Cancelled,
    Sent,
    Control(Option<CommandInput>),
    Input(Option<Vec<u8>>),
    Event(Result<CommandEvent, BackendError>),
    NoAnswer,
}

/// Waits until a moment; never completes without one.
async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Receives input; never completes without any.
async fn receive<T>(input: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match input {
        Some(input) => input.recv().await,
        None => std::future::pending().await,
    }
}

/// Delivers output to its receiver. A receiver that does not read does not keep the command from being cancelled.
async fn deliver(
    running: &mut dyn RunningCommand,
    io: &CommandIo,
    stream: usize,
    bytes: Vec<u8>,
    stop: &mut Option<Outcome>,
) {
    let Some(output) = io.output.as_ref().filter(|_| !bytes.is_empty() && *stop != Some(Outcome::Cancelled)) else {
        return;
    };
    tokio::select! {
        biased;
        // A receiver that is gone misses nothing; the report has the output.
        _sent = output.send((stream, bytes)) => {}
        () = io.cancel.cancelled() => {
            *stop = Some(Outcome::Cancelled);
            running.send(CommandInput::Signal(SIGKILL)).await;
        }
    }
}

fn guest_error(not_run: &NotRun) -> GuestError {
    let (name, value) = match not_run {
        NotRun::NotFound(name) => (GuestError::NOT_FOUND, format!("{name}: command not found in the box")),
        NotRun::NotExecutable(reason) => (GuestError::NOT_STARTED, reason.clone()),
        NotRun::Denied(name) => (GuestError::NOT_STARTED, format!("{name}: not allowed by the rules of the box")),
    };
    GuestError { name: name.to_owned(), value, ..GuestError::default() }
}

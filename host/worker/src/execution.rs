//! Execution of one job in a worker, seen from the other process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::{
    BackendError, BackendId, BoxFuture, CancelToken, Effects, ExecIo, InputModes, InstanceSpec, Job, LimitKind, Limits,
    MimeBundle, Outcome, PartialOutput, Provenance, RunReport, RunTools, SandboxLayer, Shown, ToolResult,
};
use codebox_streams::{DRAIN_TIMEOUT, Delivery, MAX_PARSED, MAX_SHOWN, MAX_SHOWN_SIZE, Output, Sinks, Stdin};
use serde_bytes::ByteBuf;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backend::{START_TIMEOUT, WORKER, lost, stalled};
use crate::check::checked;
use crate::connection::Connection;
use crate::message::{Event, Exec, Request};

/// Time after its wall limit at which a worker that has not ended its job is killed.
const WALL_LIMIT_GRACE: Duration = Duration::from_secs(5);

/// Time after a cancellation at which a worker that has not ended its job is killed.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The same, after a forced cancellation.
const FORCED_CANCEL_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum size in bytes of a message with the call of a tool, whose input has at most 2 MiB.
const MAX_TOOL_CALL: u32 = 3 << 20;

/// Maximum size in bytes of a message with a rich result.
const MAX_RESULT: u32 = 24 << 20;

/// Maximum size in bytes of the documents of all results of one job that are shown: documents are written anew.
const MAX_SHOWN_DOCUMENTS: usize = 2 * MAX_PARSED;

/// Maximum size of one piece of input.
const CHUNK_SIZE: usize = 64 << 10;

/// Maximum size in bytes of a report without its output: it lists up to ten thousand files and has up to 16 MiB of rich results.
const MAX_REPORT: u32 = 64 << 20;

/// Runs a job. The output that has arrived is kept, however the worker ends. `known_layers` are those of an earlier job, after which
/// the worker is not trusted.
pub(crate) async fn run(
    connection: &mut Connection,
    id: &BackendId,
    spec: &InstanceSpec,
    known_layers: &mut Option<Vec<SandboxLayer>>,
    job: &Job,
    io: &mut ExecIo,
) -> Result<RunReport, BackendError> {
    let limits = &job.limits;
    connection.accept_last_event_up_to(max_last_event(limits));
    let tools = io.tools.clone();
    let shows_results = io.results.is_some();
    let has_input_modes = io.input_modes.is_some();
    let max_tool_call = if tools.is_some() { MAX_TOOL_CALL } else { 0 };
    connection.accept_ordinary_events_up_to(if shows_results { MAX_RESULT } else { max_tool_call });
    let list = tools.as_ref().map(|tools| tools.list());
    let sent = connection.send(&Request::Exec(Box::new(Exec {
        job: job.clone(),
        tools: list,
        shows_results,
        has_input_modes,
    })));
    sent.map_err(|source| BackendError::io("pass the job to its worker process", source))?;
    let started = tokio::select! {
        event = connection.event() => event,
        () = io.cancel.cancelled() => {
            connection.kill();
            let provenance = Provenance::new(id.clone(), spec.isolation);
            return Ok(RunReport::new(Outcome::Cancelled, provenance, *limits));
        }
        () = sleep(START_TIMEOUT) => return Err(stalled("start the program", connection)),
    };
    let layers = match started {
        Some(Ok(Event::Started(layers))) => known_layers.get_or_insert(layers).clone(),
        // No code of the guest has run yet.
        Some(Ok(Event::Failed(failure))) if known_layers.is_none() => return Err(failure.into()),
        Some(Ok(Event::Failed(failure))) => return Err(failure.after_start()),
        other => return Err(lost("start the program", connection, other).await),
    };
    let now = Instant::now();
    let mut running = Running {
        outputs: [Output::new(limits.output), Output::new(limits.output)],
        delivery: Delivery::new(Sinks::take(io)),
        shown: ShownSoFar::default(),
        input_modes: io.input_modes.clone(),
        stalled: None,
        cancel: io.cancel.clone(),
        deadline: limits.wall.at().map(|wall| now + wall),
    };
    let ended = running.drive(connection, Stdin::of(&job.stdin, io), tools).await;
    let has_ended = matches!(&ended, Ok(End::Report(report)) if matches!(report.outcome, Outcome::Exited(_)));
    if running.stalled.is_none() && has_ended {
        running.finish_delivery().await;
    }
    let stalled = running.stalled.take().filter(|_| has_ended);
    let _ = timeout(DRAIN_TIMEOUT, running.delivery.finish()).await;
    let [stdout, stderr] = running.outputs.map(Output::finish);
    match ended {
        Ok(End::Report(report)) => {
            if !(spec.session.is_some() && report.is_kept()) {
                // The worker can no longer change the files that the report lists.
                connection.kill();
            }
            let (id, spec, job) = (id.clone(), spec.clone(), job.clone());
            let checked = move || checked(*report, &id, &spec, &job, layers);
            let checked = tokio::task::spawn_blocking(checked).await;
            let mut report =
                checked.map_err(|error| BackendError::engine("check the report of a worker process", error))?;
            // A program has ended once its output is delivered.
            report.outcome = stalled.unwrap_or(report.outcome);
            Ok(report)
        }
        Ok(End::Killed(outcome)) => {
            let mut report = RunReport::new(outcome, Provenance::new(id.clone(), spec.isolation), *limits);
            report.usage.wall = now.elapsed();
            report.enforcement.layers = layers;
            report.effects = Effects::Possible;
            (report.stdout, report.stderr) = (stdout, stderr);
            Ok(report)
        }
        Err(error) => {
            let partial_output = Box::new(PartialOutput { stdout, stderr });
            Err(BackendError::DuringJob { error: Box::new(error), partial_output })
        }
    }
}

/// Returns the maximum size of the last message of a worker: a report with all of the output, or of 4 GiB if the output is
/// unlimited.
fn max_last_event(limits: &Limits) -> u32 {
    let Some(output) = limits.output.at() else { return u32::MAX };
    let output = u32::try_from(output.get().saturating_mul(2)).unwrap_or(u32::MAX);
    output.saturating_add(MAX_REPORT)
}

/// End of a job.
enum End {
    Report(Box<RunReport>),
    /// The worker did not end the job, and is killed.
    Killed(Outcome),
}

/// Job whose program has started.
struct Running {
    /// The output so far, for a job whose worker does not report its end.
    outputs: [Output; 2],
    delivery: Delivery,
    /// Sizes of what the guest has shown.
    shown: ShownSoFar,
    input_modes: Option<Arc<dyn InputModes>>,
    /// Reason that a reader which has not taken all output is no longer waited for.
    stalled: Option<Outcome>,
    cancel: CancelToken,
    deadline: Option<Instant>,
}

impl Running {
    async fn drive(
        &mut self,
        connection: &mut Connection,
        stdin: Stdin,
        tools: Option<RunTools>,
    ) -> Result<End, BackendError> {
        let mut kill_at =
            self.deadline.map(|deadline| (deadline + WALL_LIMIT_GRACE, Outcome::LimitHit(LimitKind::Wall)));
        let (mut is_cancelled, mut is_forced) = (false, false);
        // One read for each request of the worker, which other events do not repeat.
        let mut reading: Option<BoxFuture<'_, (Stdin, io::Result<Vec<u8>>)>> = None;
        let mut stdin = Some(stdin);
        // The guest waits for the result of a call.
        let mut calling: Option<BoxFuture<'_, ToolResult>> = None;
        loop {
            let event = tokio::select! {
                event = connection.event() => event,
                (source, read) = pending(&mut reading) => {
                    reading = None;
                    stdin = Some(source);
                    send(connection, &Request::Input(read.ok().map(ByteBuf::from)))?;
                    continue;
                }
                result = pending(&mut calling) => {
                    calling = None;
                    send(connection, &Request::ToolResult(result.map(ByteBuf::from)))?;
                    continue;
                }
                () = self.cancel.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    send(connection, &Request::Cancel)?;
                    kill_at = earlier(kill_at, Instant::now() + CANCEL_TIMEOUT);
                    continue;
                }
                () = self.cancel.forced_token().cancelled(), if is_cancelled && !is_forced => {
                    is_forced = true;
                    kill_at = earlier(kill_at, Instant::now() + FORCED_CANCEL_TIMEOUT);
                    continue;
                }
                outcome = due(kill_at.as_ref()) => {
                    connection.kill();
                    return Ok(End::Killed(outcome));
                }
            };
            match event {
                Some(Ok(Event::Output(stream @ 0..=1, bytes))) => self.output(usize::from(stream), &bytes).await,
                Some(Ok(Event::Shown(shown))) if self.admits(&shown) => self.show(*shown).await,
                Some(Ok(Event::InputMode(mode))) if self.input_modes.is_some() => {
                    self.input_modes.iter().for_each(|modes| modes.set(mode));
                }
                // A second request before the answer to the first has no effect.
                Some(Ok(Event::InputRequest)) => {
                    let written = connection.written();
                    reading = stdin.take().map_or(reading, |stdin| Some(Box::pin(read(written, stdin))));
                }
                Some(Ok(Event::ToolCall(name, input, effects))) if tools.is_some() && calling.is_none() => {
                    calling = tools.as_ref().map(|tools| tools.call(&name, input.into_vec(), effects));
                }
                Some(Ok(Event::Ended(report))) => return Ok(End::Report(report)),
                Some(Ok(Event::Failed(failure))) => return Err(failure.after_start()),
                other => return Err(lost("run the job", connection, other).await),
            }
        }
    }

    /// Captures output, and passes it on for as long as a stalled reader may delay the job.
    async fn output(&mut self, stream: usize, bytes: &[u8]) {
        // The worker ends a job that writes too much.
        let Ok(fits) = self.outputs[stream].write(bytes) else { return };
        if self.stalled.is_some() {
            return;
        }
        let until = self.stop();
        tokio::select! {
            biased;
            // A closed reader does not affect the job.
            _sent = self.delivery.send(stream, &bytes[..fits]) => {}
            outcome = until => self.stalled = Some(outcome),
        }
    }

    /// Counts what a guest shows, and returns true if it is within the limits, which the worker has held.
    fn admits(&mut self, shown: &Shown) -> bool {
        self.shown.count += 1;
        if let Shown::Result(result) = shown {
            if result.display_id.as_ref().is_some_and(|id| id.len() > MimeBundle::MAX_ID_LEN) {
                return false;
            }
            for form in result.data.values().chain(result.metadata.values()) {
                match form.as_str() {
                    Some(text) => self.shown.text_size += text.len(),
                    None => self.shown.document_size += form.to_string().len(),
                }
            }
        }
        let ShownSoFar { count, text_size, document_size } = self.shown;
        count <= MAX_SHOWN && text_size <= MAX_SHOWN_SIZE && document_size <= MAX_SHOWN_DOCUMENTS
    }

    /// Passes a result on, as output.
    async fn show(&mut self, shown: Shown) {
        if self.stalled.is_some() {
            return;
        }
        let until = self.stop();
        tokio::select! {
            biased;
            _shown = self.delivery.show(shown) => {}
            outcome = until => self.stalled = Some(outcome),
        }
    }

    /// Waits until the readers have taken all output, for as long as a stalled reader may delay the job.
    async fn finish_delivery(&mut self) {
        let until = self.stop();
        tokio::select! {
            biased;
            () = self.delivery.finish() => {}
            outcome = until => self.stalled = Some(outcome),
        }
    }

    /// Waits until the job is cancelled or its time is over, and returns the outcome of that.
    fn stop(&self) -> impl Future<Output = Outcome> + use<> {
        let (cancel, deadline) = (self.cancel.clone(), self.deadline);
        async move {
            tokio::select! {
                () = cancel.cancelled() => Outcome::Cancelled,
                () = at(deadline) => Outcome::LimitHit(LimitKind::Wall),
            }
        }
    }
}

/// Sizes of what a guest has shown, in bytes.
#[derive(Clone, Copy, Default)]
struct ShownSoFar {
    count: usize,
    text_size: usize,
    document_size: usize,
}

fn send(connection: &Connection, request: &Request) -> Result<(), BackendError> {
    connection.send(request).map_err(|source: io::Error| BackendError::EngineLost {
        backend: WORKER,
        action: "run the job".to_owned(),
        source: source.into(),
    })
}

/// Returns the earlier kill of a job that is cancelled.
fn earlier(kill_at: Option<(Instant, Outcome)>, at: Instant) -> Option<(Instant, Outcome)> {
    match kill_at {
        Some((other, outcome)) if other <= at => Some((other, outcome)),
        _ => Some((at, Outcome::Cancelled)),
    }
}

async fn due(kill_at: Option<&(Instant, Outcome)>) -> Outcome {
    match kill_at {
        Some((at, outcome)) => {
            sleep_until(*at).await;
            outcome.clone()
        }
        None => std::future::pending().await,
    }
}

/// Waits for a read; never completes without one.
async fn pending<T>(reading: &mut Option<BoxFuture<'_, T>>) -> T {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// Reads a piece of input, when the worker has taken the one before.
async fn read(written: impl Future<Output = ()>, mut stdin: Stdin) -> (Stdin, io::Result<Vec<u8>>) {
    written.await;
    let mut chunk = vec![0; CHUNK_SIZE];
    let read = stdin.read(&mut chunk).await.map(|count| {
        chunk.truncate(count);
        chunk
    });
    (stdin, read)
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

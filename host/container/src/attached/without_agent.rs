//! A job in a running container in which the agent cannot run: the engine starts its program.
//!
//! The engine has no call that ends a program. A shell therefore starts the program, and first prints its own process number, which is
//! that of the program later; another shell sends the signals. Without a shell in the container the job is refused, because its time
//! limit could not be enforced.

use std::pin::Pin;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use codebox_analysis::Analyzer;
use codebox_core::{
    Attachment, BackendError, BoxFuture, CancelToken, ExecIo, Instance, Job, LimitKind, Outcome, RunReport, Usage,
};
use codebox_streams::{DRAIN_TIMEOUT, Delivery, Output, Sinks, Stdin, WriteError};
use futures_util::StreamExt as _;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::exec::{self, Exec};
use super::instance::{environment, report};
use crate::classify::HostStop;
use crate::command;
use crate::engine::Engine;
use crate::error::ContainerError;
use crate::instance::describe_end;
use crate::queries::Stripper;

/// Program of the shell that starts a job: changes to the directory of its first word, prints its process number in one line, and
/// becomes the other words. Engines are not given the directory, because old ones resolve links in it outside of the container.
const START: &str = "cd \"$1\" || exit 126; shift; echo \"$$\"; exec \"$@\"";

/// Program of the shell that sends a signal to a process and to its group.
const SIGNAL: &str = "kill -s \"$1\" -- \"-$2\" 2>/dev/null; kill -s \"$1\" \"$2\"";

/// Time for a job to end after an interrupt, before it is killed.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for the output of a killed job to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes before the process number.
const MAX_NUMBER_SIZE: usize = 16;

/// A running container without the agent.
pub(super) struct ExecInstance {
    engine: Engine,
    attachment: Attachment,
    /// Reason that there is no agent.
    why: String,
    analyzer: Analyzer,
    /// Environment that the engine gives to programs.
    env: Vec<(String, String)>,
    startup: Duration,
}

impl ExecInstance {
    /// Checks that programs can be started and ended in the container.
    pub(super) async fn open(
        engine: Engine,
        attachment: &Attachment,
        why: String,
        analyzer: Analyzer,
        began: Instant,
    ) -> Result<Self, ContainerError> {
        let words = ["sh", "-c", "kill -s CONT $$"].map(str::to_owned).to_vec();
        let check = Exec { words, user: attachment.user.as_deref(), cwd: Some("/"), ..Exec::default() };
        let checked = exec::run(&engine.client, &attachment.container.id, &check).await;
        if !matches!(checked, Ok((0, _))) {
            let why = format!("neither the agent nor a shell can run in it ({why})");
            return Err(ContainerError::Input { subject: attachment.origin.clone(), why });
        }
        let attachment = attachment.clone();
        Ok(Self { engine, attachment, why, analyzer, env: Vec::new(), startup: began.elapsed() })
    }

    async fn run(&mut self, job: &Job, io: &mut ExecIo) -> Result<RunReport, ContainerError> {
        let refused = |subject: &str, why: String| Err(ContainerError::Input { subject: subject.to_owned(), why });
        if !job.files.is_empty() {
            let why = format!(
                "{} has no agent, and the program is in no directory that is mounted there; pass it with -c or on standard input",
                self.attachment.origin
            );
            return refused("the program's file", why);
        }
        if io.tools.is_some() {
            return refused("host tools", "a container that codebox has not made cannot have them".to_owned());
        }
        let stripper = Stripper::new(Some(self.analyzer.clone()), &job.limits);
        let started = command::of(job, &stripper).await?;
        let stdin = match &started.program {
            Some(program) => Stdin::bytes(program.clone().into_bytes()),
            None => Stdin::of(&job.stdin, io),
        };
        let mut running = Running {
            sinks: Delivery::new(Sinks::take(io)),
            outputs: [Output::new(job.limits.output), Output::new(job.limits.output)],
            pid: None,
            head: Vec::new(),
            stop: None,
        };
        let container = self.attachment.container.id.clone();
        let cwd = self.attachment.directory();
        let words = ["sh", "-c", START, "sh", cwd.as_str()].map(str::to_owned).into_iter();
        let words = words.chain(started.argv.iter().cloned());
        let program = Exec {
            words: words.collect(),
            user: self.attachment.user.as_deref(),
            cwd: Some("/"),
            env: environment(&self.env, &self.attachment, job).into_iter().map(|(n, v)| format!("{n}={v}")).collect(),
            has_stdin: true,
        };
        let began = Instant::now();
        let streams = exec::start(&self.engine.client, &container, &program).await?;
        let id = streams.id.clone();
        let signals = Signals { engine: &self.engine, attachment: &self.attachment };
        let ended = running.drive(streams, stdin, job.limits.wall.at(), &io.cancel.clone(), &signals).await;
        let _ = timeout(DRAIN_TIMEOUT, running.sinks.finish()).await;
        let [stdout, stderr] = running.outputs;
        let captured = [stdout.finish(), stderr.finish()];
        let outcome = match (ended, running.stop) {
            (Err(error), _) => return Err(ContainerError::mid_job(captured)(error)),
            (Ok(()), Some(HostStop::Cancelled)) => Outcome::Cancelled,
            (Ok(()), Some(HostStop::Limit(kind))) => Outcome::LimitHit(kind),
            (Ok(()), None) => match exec::status(&self.engine.client, &id).await {
                // The status of a program that a signal has ended is that of shells.
                Ok(status) => Outcome::Exited(i32::try_from(status).unwrap_or(1)),
                Err(error) => return Err(ContainerError::mid_job(captured)(error)),
            },
        };
        let mut report = report(&self.engine, &self.attachment, outcome, &job.limits, Err(&self.why));
        report.usage = Usage { wall: began.elapsed(), startup: Some(self.startup), ..Usage::default() };
        report.provenance.reason = format!(
            "the job runs in {}, where the engine starts it, because the agent cannot: {}",
            self.attachment.origin, self.why
        );
        describe_end(
            job,
            started.argv.first(),
            Some(self.attachment.directory().as_str()),
            None,
            captured,
            &mut report,
        );
        Ok(report)
    }
}

/// Signals for programs of a container.
struct Signals<'s> {
    engine: &'s Engine,
    attachment: &'s Attachment,
}

impl Signals<'_> {
    /// Sends a signal to a process and its group.
    fn send(&self, signal: &'static str, pid: u32) -> BoxFuture<'_, Result<(), ContainerError>> {
        let words = ["sh", "-c", SIGNAL, "sh", signal].map(str::to_owned).into_iter().chain([pid.to_string()]);
        let exec =
            Exec { words: words.collect(), user: self.attachment.user.as_deref(), cwd: Some("/"), ..Exec::default() };
        Box::pin(async move { exec::run(&self.engine.client, &self.attachment.container.id, &exec).await.map(|_| ()) })
    }
}

/// A running job.
struct Running {
    sinks: Delivery,
    outputs: [Output; 2],
    /// Process number, once the shell has printed it.
    pid: Option<u32>,
    /// Output before the process number is complete.
    head: Vec<u8>,
    stop: Option<HostStop>,
}

enum Next {
    Output(Option<Result<LogOutput, bollard::errors::Error>>),
    Cancelled,
    Forced,
    Overdue,
}

impl Running {
    /// Forwards the streams of a job until its output ends.
    async fn drive(
        &mut self,
        streams: exec::Started,
        stdin: Stdin,
        wall: Option<Duration>,
        cancel: &CancelToken,
        signals: &Signals<'_>,
    ) -> Result<(), ContainerError> {
        const OPERATION: &str = "run a program in a container";
        let exec::Started { id: _, mut output, input } = streams;
        let wall = wall.map(|wall| tokio::time::Instant::now() + wall);
        // A task of its own, which is aborted with the set: a program that does not read keeps no output back.
        let mut tasks = JoinSet::new();
        tasks.spawn(forward(stdin, input));
        // Time at which the job is killed, or given up if it was.
        let mut due: Option<tokio::time::Instant> = None;
        let mut is_killed = false;
        let mut sending: Option<BoxFuture<'_, Result<(), ContainerError>>> = None;
        loop {
            let is_running = self.stop.is_none();
            let next = tokio::select! {
                biased;
                () = cancel.cancelled(), if is_running => Next::Cancelled,
                () = cancel.forced_token().cancelled(), if !is_running && !is_killed => Next::Forced,
                () = at(wall), if is_running => {
                    self.stop = Some(HostStop::Limit(LimitKind::Wall));
                    Next::Forced
                }
                () = at(due) => Next::Overdue,
                // The engine starts the program that sends a signal only while the output is read.
                sent = pending(&mut sending) => {
                    sending = None;
                    sent?;
                    continue;
                }
                chunk = output.next() => Next::Output(chunk),
            };
            let kills = match next {
                Next::Output(None) => return Ok(()),
                Next::Output(Some(Err(error))) => return Err(ContainerError::call(OPERATION)(error)),
                Next::Output(Some(Ok(chunk))) => self.output(chunk, wall, cancel).await,
                Next::Cancelled => {
                    self.stop = Some(HostStop::Cancelled);
                    due = Some(tokio::time::Instant::now() + INTERRUPT_TIMEOUT);
                    sending = self.pid.map(|pid| signals.send("INT", pid));
                    false
                }
                Next::Forced => true,
                Next::Overdue if !is_killed => true,
                Next::Overdue => {
                    let source = "it was killed, and its output does not end".into();
                    return Err(ContainerError::Lost { doing: OPERATION, source });
                }
            };
            if kills && !is_killed {
                is_killed = true;
                due = Some(tokio::time::Instant::now() + KILL_TIMEOUT);
                sending = self.pid.map(|pid| signals.send("KILL", pid));
            }
        }
    }

    /// Takes output. Returns true if the job is to be killed.
    async fn output(&mut self, chunk: LogOutput, wall: Option<tokio::time::Instant>, cancel: &CancelToken) -> bool {
        let (stream, mut bytes) = match chunk {
            LogOutput::StdErr { message } => (1, message.to_vec()),
            LogOutput::StdOut { message } | LogOutput::Console { message } => (0, message.to_vec()),
            LogOutput::StdIn { .. } => return false,
        };
        if stream == 0 && self.pid.is_none() {
            self.head.extend(bytes);
            let Some(end) = self.head.iter().position(|byte| *byte == b'\n') else {
                return self.head.len() > MAX_NUMBER_SIZE;
            };
            bytes = self.head.split_off(end + 1);
            let number = std::str::from_utf8(&self.head[..end]).ok().and_then(|text| text.trim().parse().ok());
            self.pid = number;
        }
        match self.outputs[stream].write(&bytes) {
            Ok(fits) if self.stop.is_none() => tokio::select! {
                biased;
                _sent = self.sinks.send(stream, &bytes[..fits]) => false,
                // The sink is given up with the job.
                () = cancel.cancelled() => { self.stop = Some(HostStop::Cancelled); true }
                () = at(wall) => { self.stop = Some(HostStop::Limit(LimitKind::Wall)); true }
            },
            Ok(_) => false,
            Err(WriteError::Closed) => false,
            Err(WriteError::Flood) => {
                self.stop.get_or_insert(HostStop::Limit(LimitKind::Output));
                true
            }
        }
    }
}

/// Forwards standard input until it ends, or until the program closes it.
async fn forward(mut stdin: Stdin, mut input: Pin<Box<dyn AsyncWrite + Send>>) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(count @ 1..) = stdin.read(&mut buffer).await {
        if input.write_all(&buffer[..count]).await.is_err() || input.flush().await.is_err() {
            return;
        }
    }
    let _ = input.shutdown().await;
}

/// Waits for a future; never completes without one.
async fn pending<T>(future: &mut Option<BoxFuture<'_, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Instance for ExecInstance {
    fn exec<'a>(&'a mut self, job: &'a Job, io: &'a mut ExecIo) -> BoxFuture<'a, Result<RunReport, BackendError>> {
        Box::pin(async move {
            let id = self.engine.facts.flavour.id();
            self.run(job, io).await.map_err(|error| error.of(&id))
        })
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, Result<(), BackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

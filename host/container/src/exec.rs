//! Execution of one job in a container that is ready: start, input, output and end.

use std::time::{Duration, Instant};

use codebox_agent::{Event, INITIAL_INPUT_CREDIT, JobExit, Request, Run};
use codebox_core::{CancelToken, CapturedOutput, LimitKind, Limits, Resizes, RunTools, Shown, WindowSize};
use codebox_streams::{DRAIN_TIMEOUT, Delivery, Output, Sinks, Stdin, WriteError};
use tokio::time::{sleep, sleep_until, timeout};

use crate::agent_connection::AgentConnection;
use crate::cell::{Cell, CellQuery};
use crate::classify::HostStop;
use crate::error::ContainerError;
use crate::port_forwards::{JobConnections, NetworkEvent};
use crate::queries::{Queries, Stripper};
use crate::watch::Watch;

/// Delay with which the host ends a job at its time limit, so that the agent ends the job first.
const WALL_LIMIT_GRACE: Duration = Duration::from_secs(1);

/// Time for a job to end after an interrupt, before it is killed.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for the agent to report the end of a killed job.
const EXIT_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

const SIGINT: u8 = 2;
const SIGKILL: u8 = 9;
const SIGCONT: u8 = 18;
const SIGSTOP: u8 = 19;

/// Standard streams and cancellation of a job.
pub(crate) struct Streams {
    pub stdin: Stdin,
    pub sinks: Sinks,
    pub cancel: CancelToken,
    /// Host tools that programs may call.
    pub tools: Option<RunTools>,
    /// New sizes of the terminal.
    pub resizes: Option<Box<dyn Resizes>>,
}

/// Result of a job.
pub(crate) struct ExecResult {
    /// The agent's report, `None` if the agent ended without one, or the error that prevented the report from being
    /// read.
    pub ended: Result<Option<JobExit>, ContainerError>,
    pub stop: Option<HostStop>,
    pub captured: [CapturedOutput; 2],
    pub began: Instant,
}

/// Result of a cell of a session.
pub(crate) struct CellResult {
    /// The agent's report, if the interpreter has ended with the cell.
    pub ended: Option<JobExit>,
    pub stop: Option<HostStop>,
    pub captured: [CapturedOutput; 2],
    pub began: Instant,
}

/// Runs a cell of a session to its end. The interpreter is started with the first one.
///
/// # Errors
/// Returns an error if the cell could not be started, or if its end is unknown.
pub(crate) async fn run_cell(
    agent_connection: &mut AgentConnection,
    limits: &Limits,
    streams: Streams,
    stripper: &Stripper,
    watch: Option<&mut Watch>,
    job_connections: Option<&mut JobConnections>,
    cell: &mut Cell,
) -> Result<CellResult, ContainerError> {
    let Streams { stdin: _, sinks, cancel, tools, resizes: _ } = streams;
    match cell.begin() {
        Some(start @ Request::Run(_)) => {
            agent_connection.request(&start).await?;
            // The standard input of cells is empty.
            agent_connection.request(&Request::InputEnd).await?;
        }
        // Without an answer, the interpreter was stopped before it requested the cell, and will.
        answer => {
            agent_connection.request(&Request::Signal(SIGCONT)).await?;
            if let Some(answer) = answer {
                agent_connection.request(&answer).await?;
            }
        }
    }
    let began = Instant::now();
    let mut job = RunningJob {
        stdin: None,
        credit: 0,
        outputs: [Output::new(limits.output), Output::new(limits.output)],
        delivery: Delivery::new(sinks),
        delivering: true,
        queries: Queries::new(stripper.clone(), tools),
        watch,
        job_connections,
        resizes: None,
        cell: Some(&mut *cell),
        stop: None,
        killed_at: None,
    };
    // The agent does not know the cells.
    let deadline = limits.wall.at().map(|wall| tokio::time::Instant::now() + wall);
    let ended = job.drive(agent_connection, &cancel, deadline).await;
    let _ = timeout(DRAIN_TIMEOUT, job.delivery.finish()).await;
    let RunningJob { outputs: [stdout, stderr], queries, stop, .. } = job;
    if matches!(ended, Ok(None)) && cell.status().is_some() {
        // The agent has a place for a query until it is answered.
        for answer in queries.interrupted() {
            agent_connection.request(&answer).await?;
        }
        // No limit applies between cells, so no process runs.
        agent_connection.request(&Request::Signal(SIGSTOP)).await?;
    }
    let captured = [stdout.finish(), stderr.finish()];
    match ended {
        Ok(ended) => Ok(CellResult { ended, stop, captured, began }),
        Err(error) => Err(ContainerError::mid_job(captured)(error)),
    }
}

/// Runs a job to its end. The job's output is kept however the job ends, even if its end is unknown.
///
/// # Errors
/// Returns an error if the job could not be started.
pub(crate) async fn run(
    agent_connection: &mut AgentConnection,
    request: Run,
    limits: &Limits,
    streams: Streams,
    stripper: &Stripper,
    watch: Option<&mut Watch>,
    job_connections: Option<&mut JobConnections>,
) -> Result<ExecResult, ContainerError> {
    let Streams { stdin, sinks, cancel, tools, resizes } = streams;
    let mut job = RunningJob {
        stdin: Some(stdin),
        credit: INITIAL_INPUT_CREDIT,
        outputs: [Output::new(limits.output), Output::new(limits.output)],
        delivery: Delivery::new(sinks),
        delivering: true,
        queries: Queries::new(stripper.clone(), tools),
        watch,
        job_connections,
        resizes,
        cell: None,
        stop: None,
        killed_at: None,
    };
    agent_connection.request(&Request::Run(request)).await?;
    let began = Instant::now();
    let deadline = limits.wall.at().map(|wall| tokio::time::Instant::now() + wall + WALL_LIMIT_GRACE);
    let ended = job.drive(agent_connection, &cancel, deadline).await;
    // A job is complete when its output has been delivered. After a stop the wait is short.
    let stopped = job.stop.is_some() || !matches!(ended, Ok(Some(JobExit { stop: None, .. })));
    if job.delivering && !stopped {
        let finish = job.delivery.finish();
        let until = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = finish => {}
            () = until => job.stop = Some(HostStop::Limit(LimitKind::Wall)),
            () = cancel.cancelled() => job.stop = Some(HostStop::Cancelled),
        }
    }
    let _ = timeout(DRAIN_TIMEOUT, job.delivery.finish()).await;
    let [stdout, stderr] = job.outputs;
    Ok(ExecResult { ended, stop: job.stop, captured: [stdout.finish(), stderr.finish()], began })
}

struct RunningJob<'a> {
    /// `None` once the end of the input has been sent.
    stdin: Option<Stdin>,
    /// Number of bytes of input that may be sent.
    credit: u32,
    outputs: [Output; 2],
    delivery: Delivery,
    delivering: bool,
    /// Queries of the job's programs that have no answer yet.
    queries: Queries,
    watch: Option<&'a mut Watch>,
    /// Network connections of the job.
    job_connections: Option<&'a mut JobConnections>,
    resizes: Option<Box<dyn Resizes>>,
    /// The cell, if the job is an interpreter that runs one cell after the other.
    cell: Option<&'a mut Cell>,
    stop: Option<HostStop>,
    /// Time of the kill.
    killed_at: Option<tokio::time::Instant>,
}

async fn next_size(resizes: &mut Option<Box<dyn Resizes>>) -> WindowSize {
    match resizes {
        Some(resizes) => resizes.next().await,
        None => std::future::pending().await,
    }
}

/// Part of what a job produces.
enum Part<'p> {
    Output(usize, &'p [u8]),
    Shown(Shown),
}

enum JobEvent {
    Event(Result<Option<Event>, ContainerError>),
    Input(std::io::Result<Vec<u8>>),
    Answered(u32, Vec<u8>),
    Network(NetworkEvent),
    Resized(WindowSize),
    /// Progress in sending requests, or its failure.
    Written(Result<(), ContainerError>),
    Cancelled,
    CancelledAgain,
    LimitHit,
    DirectoryLimitHit(LimitKind),
    /// The cell has ended, and its output will not be complete.
    CellOverdue,
    /// Timeout of an agent that accepts no requests and sends no events.
    AgentStalled,
    /// Timeout of an agent that does not report the end after an interrupt or a kill.
    ExitOverdue,
}

impl RunningJob<'_> {
    async fn drive(
        &mut self,
        agent_connection: &mut AgentConnection,
        cancel: &CancelToken,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<Option<JobExit>, ContainerError> {
        let mut interrupted_at: Option<tokio::time::Instant> = None;
        // The error that prevents further requests, and the deadline for an event that explains it.
        let mut write_failure: Option<(ContainerError, tokio::time::Instant)> = None;
        loop {
            if self.cell.as_ref().is_some_and(|cell| cell.is_over()) {
                return Ok(None);
            }
            let job_event = {
                let cell_deadline = self.cell.as_ref().and_then(|cell| cell.deadline());
                let exit_deadline = match (self.killed_at, interrupted_at) {
                    (Some(killed_at), _) => Some(killed_at + EXIT_REPORT_TIMEOUT),
                    (None, Some(interrupted_at)) => Some(interrupted_at + INTERRUPT_TIMEOUT),
                    (None, None) => None,
                };
                let running = self.stop.is_none();
                let interrupting = interrupted_at.is_some() && self.killed_at.is_none();
                let credit = self.credit;
                let Self { stdin, queries, watch, job_connections, resizes, .. } = self;
                let AgentConnection { event_reader, write_queue } = &mut *agent_connection;
                let can_write = write_failure.is_none();
                let has_capacity = can_write && write_queue.has_capacity();
                let input = async {
                    match stdin {
                        Some(stdin) if credit > 0 && running && has_capacity => {
                            let mut buffer = vec![0; (credit as usize).min(32 << 10)];
                            let count = stdin.read(&mut buffer).await?;
                            buffer.truncate(count);
                            Ok(buffer)
                        }
                        _ => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    () = cancel.cancelled(), if running => JobEvent::Cancelled,
                    () = cancel.forced_token().cancelled(), if interrupting => JobEvent::CancelledAgain,
                    () = at(deadline), if running => JobEvent::LimitHit,
                    () = at(exit_deadline) => JobEvent::ExitOverdue,
                    () = at(cell_deadline) => JobEvent::CellOverdue,
                    () = at(write_failure.as_ref().map(|(_, until)| *until)) => JobEvent::AgentStalled,
                    kind = exceeded(watch), if running => JobEvent::DirectoryLimitHit(kind),
                    // Before the agent's events, of which a job can cause an endless number.
                    (number, answer) = queries.next_answer(), if has_capacity => JobEvent::Answered(number, answer),
                    size = next_size(resizes), if has_capacity => JobEvent::Resized(size),
                    written = write_queue.written(), if can_write => JobEvent::Written(written),
                    next = next_network_event(job_connections), if has_capacity => JobEvent::Network(next),
                    event = event_reader.event() => JobEvent::Event(event),
                    bytes = input => JobEvent::Input(bytes),
                }
            };
            match job_event {
                JobEvent::Event(Ok(Some(Event::JobExit(ended)))) => return Ok(Some(ended)),
                JobEvent::Event(Ok(Some(event))) => {
                    self.on_event(event, agent_connection, cancel, deadline).await?;
                    agent_connection.write_queue.on_event();
                }
                JobEvent::Event(Ok(None)) => return Ok(None),
                JobEvent::Event(Err(error)) => return Err(error),
                JobEvent::Input(Ok(bytes)) if bytes.is_empty() => {
                    self.stdin = None;
                    agent_connection.write_queue.enqueue(&Request::InputEnd);
                }
                JobEvent::Input(Ok(bytes)) => {
                    self.credit = self.credit.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    agent_connection.write_queue.enqueue(&Request::Input(bytes));
                }
                // An input that cannot be read ends, as a pipe ends when its writer dies.
                JobEvent::Input(Err(_)) => {
                    self.stdin = None;
                    agent_connection.write_queue.enqueue(&Request::InputEnd);
                }
                // The answers took more processor time than the whole job may use.
                JobEvent::Answered(..) if self.stop.is_none() && self.queries.exceeds_cpu_limit() => {
                    self.kill(HostStop::Limit(LimitKind::Cpu), agent_connection);
                }
                JobEvent::Answered(number, answer) => {
                    agent_connection.write_queue.enqueue(&Request::Answer(number, answer))
                }
                JobEvent::Network(NetworkEvent::Request(request)) => agent_connection.write_queue.enqueue(&request),
                JobEvent::Resized(size) => agent_connection.write_queue.enqueue(&Request::Resize(size)),
                JobEvent::Written(Ok(())) => {}
                // A container that has ended accepts no requests. The explanation arrives in the other direction.
                JobEvent::Written(Err(error)) => {
                    write_failure = Some((error, tokio::time::Instant::now() + EXIT_REPORT_TIMEOUT))
                }
                JobEvent::CellOverdue => return Ok(None),
                JobEvent::AgentStalled => return write_failure.map_or(Ok(None), |(error, _)| Err(error)),
                JobEvent::Network(NetworkEvent::LimitHit(kind)) if self.stop.is_none() => {
                    self.kill(HostStop::Limit(kind), agent_connection)
                }
                // The job is already being ended for another reason.
                JobEvent::Network(NetworkEvent::LimitHit(_)) => {}
                JobEvent::Cancelled => {
                    self.stop = Some(HostStop::Cancelled);
                    interrupted_at = Some(tokio::time::Instant::now());
                    agent_connection.write_queue.enqueue_first(&Request::Signal(SIGINT));
                }
                JobEvent::CancelledAgain => self.kill(HostStop::Cancelled, agent_connection),
                JobEvent::LimitHit => self.kill(HostStop::Limit(LimitKind::Wall), agent_connection),
                JobEvent::DirectoryLimitHit(kind) => self.kill(HostStop::Limit(kind), agent_connection),
                JobEvent::ExitOverdue if self.killed_at.is_none() => self.kill(HostStop::Cancelled, agent_connection),
                // The agent does not respond. Removing the container ends the job.
                JobEvent::ExitOverdue => return Ok(None),
            }
        }
    }

    fn kill(&mut self, why: HostStop, agent_connection: &mut AgentConnection) {
        self.stop.get_or_insert(why);
        self.killed_at = Some(tokio::time::Instant::now());
        agent_connection.write_queue.enqueue_first(&Request::Signal(SIGKILL));
    }

    async fn on_event(
        &mut self,
        event: Event,
        agent_connection: &mut AgentConnection,
        cancel: &CancelToken,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<(), ContainerError> {
        match event {
            Event::Stdout(bytes) => self.output(0, bytes, agent_connection, cancel, deadline).await,
            Event::Stderr(bytes) => self.output(1, bytes, agent_connection, cancel, deadline).await,
            Event::InputCredit(count) => {
                // The credit never exceeds its initial value, whatever the agent requests.
                self.credit = self.credit.saturating_add(count).min(INITIAL_INPUT_CREDIT);
                Ok(())
            }
            Event::Query(number, query) => {
                match self.cell.as_mut().map_or(CellQuery::Other, |cell| cell.query(number, &query)) {
                    CellQuery::Other => self.queries.submit(number, query)?,
                    CellQuery::Answer(answer) => agent_connection.write_queue.enqueue(&answer),
                    CellQuery::Waits => {}
                }
                for shown in self.cell.as_mut().map(|cell| cell.take_unshown()).unwrap_or_default() {
                    self.deliver(Part::Shown(shown), agent_connection, cancel, deadline).await;
                }
                Ok(())
            }
            Event::Accepted(number, port_forward) => {
                if let Some(job_connections) = &mut self.job_connections {
                    job_connections.open_connection(number, port_forward);
                    job_connections.check_backlog()?;
                }
                Ok(())
            }
            Event::Connection(number, event) => {
                if let Some(job_connections) = &mut self.job_connections {
                    job_connections.event(number, event);
                    job_connections.check_backlog()?;
                }
                Ok(())
            }
            // An agent that runs a job has no commands.
            Event::Ready(_)
            | Event::Started
            | Event::JobExit(_)
            | Event::BoxOpened(_)
            | Event::Command(..)
            | Event::ShimCall(_) => Ok(()),
        }
    }

    /// Captures output and delivers it.
    async fn output(
        &mut self,
        stream: usize,
        bytes: Vec<u8>,
        agent_connection: &mut AgentConnection,
        cancel: &CancelToken,
        deadline: Option<tokio::time::Instant>,
    ) -> Result<(), ContainerError> {
        let bytes = match &mut self.cell {
            Some(cell) => cell.output(stream, bytes),
            None => bytes,
        };
        let fits = match self.outputs[stream].write(&bytes) {
            Ok(fits) => fits,
            Err(WriteError::Closed) => return Ok(()),
            Err(WriteError::Flood) if self.killed_at.is_some() => return Ok(()),
            Err(WriteError::Flood) => {
                self.kill(HostStop::Limit(LimitKind::Output), agent_connection);
                return Ok(());
            }
        };
        self.deliver(Part::Output(stream, &bytes[..fits]), agent_connection, cancel, deadline).await;
        Ok(())
    }

    /// Delivers a part of what the job produces, for as long as the sinks may block the job.
    async fn deliver(
        &mut self,
        part: Part<'_>,
        agent_connection: &mut AgentConnection,
        cancel: &CancelToken,
        deadline: Option<tokio::time::Instant>,
    ) {
        if !self.delivering {
            return;
        }
        let running = self.stop.is_none();
        let delivery = &mut self.delivery;
        let sent = async {
            match part {
                Part::Output(stream, bytes) => delivery.send(stream, bytes).await,
                Part::Shown(shown) => delivery.show(shown).await,
            }
        };
        let stop = tokio::select! {
            biased;
            // A closed reader does not affect the job, because the sink has already notified its owner.
            _sent = sent => return,
            () = cancel.cancelled(), if running => Some(HostStop::Cancelled),
            () = at(deadline), if running => Some(HostStop::Limit(LimitKind::Wall)),
            kind = exceeded(&mut self.watch), if running => Some(HostStop::Limit(kind)),
            // The agent ends a job at its time limit by itself, and its report is queued behind output that the reader
            // does not accept.
            () = sleep(DRAIN_TIMEOUT), if !running => None,
        };
        self.delivering = false;
        if let Some(stop) = stop {
            self.kill(stop, agent_connection);
        }
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for the next network event. Never completes without network access.
async fn next_network_event(job_connections: &mut Option<&mut JobConnections>) -> NetworkEvent {
    match job_connections {
        Some(job_connections) => job_connections.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the job exceeds a limit that this process checks. Never completes if there is no such limit.
async fn exceeded(watch: &mut Option<&mut Watch>) -> LimitKind {
    match watch {
        Some(watch) => watch.exceeded().await,
        None => std::future::pending().await,
    }
}

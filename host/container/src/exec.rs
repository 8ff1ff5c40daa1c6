//! Execution of one job in a container that is ready: start, input, output and end.

use std::time::{Duration, Instant};

use codebox_agent::{Ended, FIRST_INPUT, Order, Run, Word};
use codebox_core::{CancelToken, Captured, LimitKind, Limits, OutputSink};
use codebox_streams::{Delivery, LAST_WORDS, Output, Stdin, WriteFailed};
use tokio::time::{sleep, sleep_until, timeout};

use crate::classify::HostStop;
use crate::doors::{Next, Ways};
use crate::error::ContainerError;
use crate::questions::{Questions, Stripper};
use crate::talk::Talk;
use crate::watch::Watch;

/// Delay with which the host ends a job at its time limit, so that the agent ends the job first.
const GRACE: Duration = Duration::from_secs(1);

/// Time for a job to end after an interrupt, before it is killed.
const FAREWELL: Duration = Duration::from_secs(3);

/// Time for the agent to report the end of a killed job.
const LAST_WORD: Duration = Duration::from_secs(5);

const SIGINT: u8 = 2;
const SIGKILL: u8 = 9;

/// Standard streams and cancellation of a job.
pub(crate) struct Streams {
    pub stdin: Stdin,
    pub sinks: [Option<Box<dyn OutputSink>>; 2],
    pub cancel: CancelToken,
}

/// Result of a job.
pub(crate) struct Done {
    /// The agent's report, `None` if the agent ended without one, or the error that prevented the report from being
    /// read.
    pub ended: Result<Option<Ended>, ContainerError>,
    pub stop: Option<HostStop>,
    pub captured: [Captured; 2],
    pub began: Instant,
}

/// Runs a job to its end. The job's output is kept however the job ends, even if its end is unknown.
///
/// # Errors
/// Returns an error if the job could not be started.
pub(crate) async fn run(
    talk: &mut Talk,
    order: Run,
    limits: &Limits,
    (streams, stripper): (Streams, &Stripper),
    (watch, ways): (Option<&mut Watch>, Option<&mut Ways>),
) -> Result<Done, ContainerError> {
    let Streams { stdin, sinks, cancel } = streams;
    let mut job = Job {
        stdin: Some(stdin),
        credit: FIRST_INPUT,
        outputs: [Output::new(limits.output), Output::new(limits.output)],
        delivery: Delivery::new(sinks),
        delivering: true,
        questions: Questions::new(stripper.clone()),
        watch,
        ways,
        stop: None,
        killed: None,
    };
    talk.order(&Order::Run(order)).await?;
    let began = Instant::now();
    let over = limits.wall.at().map(|wall| tokio::time::Instant::now() + wall + GRACE);
    let ended = job.drive(talk, &cancel, over).await;
    // A job is complete when its output has been delivered. After a stop the wait is short.
    let stopped = job.stop.is_some() || !matches!(ended, Ok(Some(Ended { stop: None, .. })));
    if job.delivering && !stopped {
        let finish = job.delivery.finish();
        let until = async {
            match over {
                Some(over) => sleep_until(over).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = finish => {}
            () = until => job.stop = Some(HostStop::Limit(LimitKind::Wall)),
            () = cancel.cancelled() => job.stop = Some(HostStop::Cancelled),
        }
    }
    let _ = timeout(LAST_WORDS, job.delivery.finish()).await;
    let [stdout, stderr] = job.outputs;
    Ok(Done { ended, stop: job.stop, captured: [stdout.finish(), stderr.finish()], began })
}

struct Job<'a> {
    /// `None` once the end of the input has been sent.
    stdin: Option<Stdin>,
    /// Number of bytes of input that may be sent.
    credit: u32,
    outputs: [Output; 2],
    delivery: Delivery,
    delivering: bool,
    /// Queries of the job's programs that have no answer yet.
    questions: Questions,
    watch: Option<&'a mut Watch>,
    /// Network connections of the job.
    ways: Option<&'a mut Ways>,
    stop: Option<HostStop>,
    /// Time of the kill.
    killed: Option<tokio::time::Instant>,
}

enum Event {
    Word(Result<Option<Word>, ContainerError>),
    Input(std::io::Result<Vec<u8>>),
    Answered(u32, Vec<u8>),
    Network(Next),
    /// Progress in sending requests, or its failure.
    Told(Result<(), ContainerError>),
    Cancelled,
    Again,
    Over,
    Passed(LimitKind),
    /// Timeout of an agent that accepts no requests and sends no events.
    Deaf,
    /// Timeout of an agent that does not report the end after an interrupt or a kill.
    Late,
}

impl Job<'_> {
    async fn drive(
        &mut self,
        talk: &mut Talk,
        cancel: &CancelToken,
        over: Option<tokio::time::Instant>,
    ) -> Result<Option<Ended>, ContainerError> {
        let mut asked: Option<tokio::time::Instant> = None;
        // The error that prevents further requests, and the deadline for an event that explains it.
        let mut deaf: Option<(ContainerError, tokio::time::Instant)> = None;
        loop {
            let event = {
                let late = match (self.killed, asked) {
                    (Some(killed), _) => Some(killed + LAST_WORD),
                    (None, Some(asked)) => Some(asked + FAREWELL),
                    (None, None) => None,
                };
                let running = self.stop.is_none();
                let leaving = asked.is_some() && self.killed.is_none();
                let credit = self.credit;
                let Self { stdin, questions, watch, ways, .. } = self;
                let Talk { hears, tells } = &mut *talk;
                let tellable = deaf.is_none();
                let room = tellable && tells.has_room();
                let input = async {
                    match stdin {
                        Some(stdin) if credit > 0 && running && room => {
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
                    () = cancel.cancelled(), if running => Event::Cancelled,
                    () = cancel.again().cancelled(), if leaving => Event::Again,
                    () = at(over), if running => Event::Over,
                    () = at(late) => Event::Late,
                    () = at(deaf.as_ref().map(|(_, until)| *until)) => Event::Deaf,
                    kind = passed(watch), if running => Event::Passed(kind),
                    // Before the agent's events, of which a job can cause an endless number.
                    (number, answer) = questions.answered(), if room => Event::Answered(number, answer),
                    told = tells.told(), if tellable => Event::Told(told),
                    next = moved(ways), if room => Event::Network(next),
                    word = hears.word() => Event::Word(word),
                    bytes = input => Event::Input(bytes),
                }
            };
            match event {
                Event::Word(Ok(Some(Word::Ended(ended)))) => return Ok(Some(ended)),
                Event::Word(Ok(Some(word))) => {
                    self.heard(word, talk, cancel, over).await?;
                    talk.tells.heard();
                }
                Event::Word(Ok(None)) => return Ok(None),
                Event::Word(Err(error)) => return Err(error),
                Event::Input(Ok(bytes)) if bytes.is_empty() => {
                    self.stdin = None;
                    talk.tells.tell(&Order::InputEnd);
                }
                Event::Input(Ok(bytes)) => {
                    self.credit = self.credit.saturating_sub(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    talk.tells.tell(&Order::Input(bytes));
                }
                // An input that cannot be read ends, as a pipe ends when its writer dies.
                Event::Input(Err(_)) => {
                    self.stdin = None;
                    talk.tells.tell(&Order::InputEnd);
                }
                // The answers took more processor time than the whole job may use.
                Event::Answered(..) if self.stop.is_none() && self.questions.is_over_cpu() => {
                    self.kill(HostStop::Limit(LimitKind::Cpu), talk);
                }
                Event::Answered(number, answer) => talk.tells.tell(&Order::Answer(number, answer)),
                Event::Network(Next::Order(order)) => talk.tells.tell(&order),
                Event::Told(Ok(())) => {}
                // A container that has ended accepts no requests. The explanation arrives in the other direction.
                Event::Told(Err(error)) => deaf = Some((error, tokio::time::Instant::now() + LAST_WORD)),
                Event::Deaf => return deaf.map_or(Ok(None), |(error, _)| Err(error)),
                Event::Network(Next::Over(kind)) if self.stop.is_none() => self.kill(HostStop::Limit(kind), talk),
                // The job is already being ended for another reason.
                Event::Network(Next::Over(_)) => {}
                Event::Cancelled => {
                    self.stop = Some(HostStop::Cancelled);
                    asked = Some(tokio::time::Instant::now());
                    talk.tells.tell_first(&Order::Signal(SIGINT));
                }
                Event::Again => self.kill(HostStop::Cancelled, talk),
                Event::Over => self.kill(HostStop::Limit(LimitKind::Wall), talk),
                Event::Passed(kind) => self.kill(HostStop::Limit(kind), talk),
                Event::Late if self.killed.is_none() => self.kill(HostStop::Cancelled, talk),
                // The agent does not respond. Removing the container ends the job.
                Event::Late => return Ok(None),
            }
        }
    }

    fn kill(&mut self, why: HostStop, talk: &mut Talk) {
        self.stop.get_or_insert(why);
        self.killed = Some(tokio::time::Instant::now());
        talk.tells.tell_first(&Order::Signal(SIGKILL));
    }

    async fn heard(
        &mut self,
        word: Word,
        talk: &mut Talk,
        cancel: &CancelToken,
        over: Option<tokio::time::Instant>,
    ) -> Result<(), ContainerError> {
        match word {
            Word::Stdout(bytes) => self.output(0, &bytes, talk, cancel, over).await,
            Word::Stderr(bytes) => self.output(1, &bytes, talk, cancel, over).await,
            Word::Wants(count) => {
                // The credit never exceeds its initial value, whatever the agent requests.
                self.credit = self.credit.saturating_add(count).min(FIRST_INPUT);
                Ok(())
            }
            Word::Ask(number, question) => self.questions.ask(number, question),
            Word::Knock(number, door) => {
                if let Some(ways) = &mut self.ways {
                    ways.knocked(number, door);
                    ways.check_backlog()?;
                }
                Ok(())
            }
            Word::Way(number, said) => {
                if let Some(ways) = &mut self.ways {
                    ways.said(number, said);
                    ways.check_backlog()?;
                }
                Ok(())
            }
            Word::Ready | Word::Started | Word::Ended(_) => Ok(()),
        }
    }

    /// Captures output and delivers it to the sink, for as long as the sink may block the job.
    async fn output(
        &mut self,
        stream: usize,
        bytes: &[u8],
        talk: &mut Talk,
        cancel: &CancelToken,
        over: Option<tokio::time::Instant>,
    ) -> Result<(), ContainerError> {
        let fits = match self.outputs[stream].write(bytes) {
            Ok(fits) => fits,
            Err(WriteFailed::Closed) => return Ok(()),
            Err(WriteFailed::Flood) if self.killed.is_some() => return Ok(()),
            Err(WriteFailed::Flood) => {
                self.kill(HostStop::Limit(LimitKind::Output), talk);
                return Ok(());
            }
        };
        if !self.delivering {
            return Ok(());
        }
        let running = self.stop.is_none();
        let stop = tokio::select! {
            biased;
            // A closed reader does not affect the job, because the sink has already notified its owner.
            _sent = self.delivery.send(stream, &bytes[..fits]) => return Ok(()),
            () = cancel.cancelled(), if running => Some(HostStop::Cancelled),
            () = at(over), if running => Some(HostStop::Limit(LimitKind::Wall)),
            kind = passed(&mut self.watch), if running => Some(HostStop::Limit(kind)),
            // The agent ends a job at its time limit by itself, and its report is queued behind output that the reader
            // does not accept.
            () = sleep(LAST_WORDS), if !running => None,
        };
        self.delivering = false;
        if let Some(stop) = stop {
            self.kill(stop, talk);
        }
        Ok(())
    }
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for the next network event. Never completes without network access.
async fn moved(ways: &mut Option<&mut Ways>) -> Next {
    match ways {
        Some(ways) => ways.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until the job exceeds a limit that this process checks. Never completes if there is no such limit.
async fn passed(watch: &mut Option<&mut Watch>) -> LimitKind {
    match watch {
        Some(watch) => watch.passed().await,
        None => std::future::pending().await,
    }
}

//! One job in a container that is ready: started, fed, listened to, ended.

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

/// How much later than the agent the host ends a job whose time is over.
const GRACE: Duration = Duration::from_secs(1);

/// How long a job may take to end that was asked to, before it is killed.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long a killed job's agent may take to tell of the end.
const LAST_WORD: Duration = Duration::from_secs(5);

const SIGINT: u8 = 2;
const SIGKILL: u8 = 9;

/// Where a job's streams go and come from.
pub(crate) struct Streams {
    pub stdin: Stdin,
    pub sinks: [Option<Box<dyn OutputSink>>; 2],
    pub cancel: CancelToken,
}

/// What came of a job.
pub(crate) struct Done {
    /// The agent's word; nothing if it fell silent, and why it could not be heard if that is known.
    pub ended: Result<Option<Ended>, ContainerError>,
    pub stop: Option<HostStop>,
    pub captured: [Captured; 2],
    pub began: Instant,
}

/// Runs a job to its end. What it wrote until then is kept however it ends, also where that cannot be told.
///
/// # Errors
/// When the job could not be begun.
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
    // A program has ended when its output has been taken; one that was stopped waits a moment only.
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
    /// Nothing once its end was passed on.
    stdin: Option<Stdin>,
    /// Bytes of input that may be sent.
    credit: u32,
    outputs: [Output; 2],
    delivery: Delivery,
    delivering: bool,
    /// What its programs asked, and are still to be told.
    questions: Questions,
    watch: Option<&'a mut Watch>,
    /// What goes on over the network.
    ways: Option<&'a mut Ways>,
    stop: Option<HostStop>,
    /// When it was killed.
    killed: Option<tokio::time::Instant>,
}

enum Event {
    Word(Result<Option<Word>, ContainerError>),
    Input(std::io::Result<Vec<u8>>),
    Answered(u32, Vec<u8>),
    Network(Next),
    /// What was told has got on.
    Told(Result<(), ContainerError>),
    Cancelled,
    Again,
    Over,
    Passed(LimitKind),
    /// The agent can be told nothing, and says nothing.
    Deaf,
    /// It was asked to end, or killed, and took too long over it.
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
        // Why the agent can be told nothing any more, and how long it may still say why that is.
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
                    // Before its words, which a job can have no end of.
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
                // An input that cannot be read ends there, as a pipe does whose writer died.
                Event::Input(Err(_)) => {
                    self.stdin = None;
                    talk.tells.tell(&Order::InputEnd);
                }
                // The answer took more processor time than the whole job may.
                Event::Answered(..) if self.stop.is_none() && self.questions.is_over_cpu() => {
                    self.kill(HostStop::Limit(LimitKind::Cpu), talk);
                }
                Event::Answered(number, answer) => talk.tells.tell(&Order::Answer(number, answer)),
                Event::Network(Next::Order(order)) => talk.tells.tell(&order),
                Event::Told(Ok(())) => {}
                // A container that is gone takes nothing: what the engine says of it comes the other way.
                Event::Told(Err(error)) => deaf = Some((error, tokio::time::Instant::now() + LAST_WORD)),
                Event::Deaf => return deaf.map_or(Ok(None), |(error, _)| Err(error)),
                Event::Network(Next::Over(kind)) if self.stop.is_none() => self.kill(HostStop::Limit(kind), talk),
                // It is ended for something else already.
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
                // The agent does not get to it; whoever removes the container ends it.
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
                // Never more than at the beginning, whatever is asked for.
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

    /// Keeps what was written and passes it on, for as long as whoever takes it may take.
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
            // A reader that is gone is its own matter: the sink has told whoever it belongs to.
            _sent = self.delivery.send(stream, &bytes[..fits]) => return Ok(()),
            () = cancel.cancelled(), if running => Some(HostStop::Cancelled),
            () = at(over), if running => Some(HostStop::Limit(LimitKind::Wall)),
            kind = passed(&mut self.watch), if running => Some(HostStop::Limit(kind)),
            // The agent ends a job at its time by itself, and its word to say so is behind what nobody takes.
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

/// What the network wants.
async fn moved(ways: &mut Option<&mut Ways>) -> Next {
    match ways {
        Some(ways) => ways.next().await,
        None => std::future::pending().await,
    }
}

/// A limit that is looked at from here.
async fn passed(watch: &mut Option<&mut Watch>) -> LimitKind {
    match watch {
        Some(watch) => watch.passed().await,
        None => std::future::pending().await,
    }
}

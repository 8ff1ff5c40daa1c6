//! The host process: accepts runs, and passes each to a worker.

mod peer;
mod requests;
mod watched_files;
mod worker;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with};

use crate::client::TOKEN_DESCRIPTOR;
use crate::place::{OpenPlace, Place};
use crate::sys;
use crate::wire::{Reply, RequestKind, Status, TOKEN_SIZE};
use peer::Circumstances;
use requests::SignalPacket;
use watched_files::WatchedFiles;
use worker::{Channel, ForkedWorker, Worker};

/// Maximum number of clients that have connected and not yet sent a request.
const MAX_SILENT: usize = 32;

/// Maximum time in which a client sends its request.
const SILENCE_LIMIT: Duration = Duration::from_secs(1);

/// Time between checks of the files of this process.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// Time after a run has started at which a worker for the next one is forked, unless the run has ended before.
const FORK_DELAY: Duration = Duration::from_millis(20);

/// Number of consecutive clients with other circumstances after which the process ends: it was started in unusual ones.
const MAX_OTHERS: u32 = 8;

/// Maximum number of signals of one client that are passed on before other clients are served.
const MAX_SIGNALS: usize = 16;

/// Number of attempts to lock the place, and the time between them.
const LOCK_ATTEMPTS: usize = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// Time after which a fork that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Settings of a host process.
#[derive(Debug, Clone)]
pub struct Options {
    /// Time without a run after which the process ends.
    pub idle_limit: Duration,
    /// Maximum number of runs at a time. Further clients run their jobs themselves.
    pub max_active: usize,
    /// Number of runs after which the process ends, so that a new one takes its place with other addresses and random
    /// numbers.
    pub max_runs: u64,
    /// Time after which the process ends for the same reason.
    pub max_age: Duration,
    /// Files whose change ends the process, such as the user's configuration.
    pub watched: Vec<PathBuf>,
}

/// Reason that a host process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Another host process holds the lock.
    InUse,
    /// There was no run for the time of the options, or a client requested the end.
    Done,
    /// The process has served its number of runs or its time, and another one was started.
    Renewed,
}

/// Error of a host process.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory, the socket or the lock cannot be used.
    #[error("cannot use {}: {source}", place.display())]
    Place {
        /// The directory.
        place: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A call of the system failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The action.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> ServeError {
    move |error| ServeError::System { doing, source: error.into() }
}

/// Serves runs until the process is idle, stopped by a client, or old.
///
/// A worker does not return from this function: it exits with the status of its run.
///
/// # Errors
/// [`ServeError`] if the process cannot listen or fork.
///
/// # Safety
/// No value of this process may own a descriptor other than the standard streams, and this process must have one thread
/// only: the descriptors that it inherited are closed.
pub unsafe fn serve<L, P>(place: &Place, options: &Options, work: &Work<'_, L, P>) -> Result<Ended, ServeError> {
    // SAFETY: the caller guarantees it.
    unsafe { sys::close_other_descriptors() }.map_err(failed("close inherited descriptors"))?;
    sys::stop_ignoring_signals();
    let token = Token::create().map_err(failed("create the secret"))?;
    let at_place = |source| ServeError::Place { place: place.path().to_owned(), source };
    let open = place.create().map_err(at_place)?;
    let Some(lock) = lock(&open).map_err(at_place)? else { return Ok(Ended::InUse) };
    // It fails only if this process already leads a group, which serves the purpose as well.
    let _ = rustix::process::setsid();
    let own = Circumstances::own().map_err(failed("inspect this process"))?;
    let files = WatchedFiles::new(&options.watched).map_err(failed("inspect this program"))?;
    let loaded = (work.load)();
    let listener = open.listen().map_err(at_place)?;
    let inode = open.socket_inode();
    // The end of the output tells the process that started this one that it accepts runs.
    let null = File::open("/dev/null").map_err(failed("open /dev/null"))?;
    rustix::stdio::dup2_stdout(null).map_err(failed("close the output"))?;
    let now = Instant::now();
    let server = Server {
        options,
        renew: work.renew,
        open,
        inode,
        token,
        own,
        files,
        listening: Some(Listening { socket: listener, _lock: lock }),
        silent: Vec::new(),
        idle: Vec::new(),
        runs: Vec::new(),
        ending: Vec::new(),
        count: 0,
        others: 0,
        started: now,
        last_run: now,
        fork_at: Some(now),
        ended: Ended::Done,
    };
    match server.serve()? {
        Turn::Ended(ended) => Ok(ended),
        // The server is gone in a worker, which has no use for its descriptors.
        Turn::Worker(channel) => {
            let prepared = (work.prepare)(&loaded);
            let Channel { run, status: report } = channel;
            let status = match worker::receive(run) {
                Ok(Some(args)) => (work.run)(prepared, args),
                Ok(None) => {
                    (work.discard)(prepared);
                    0
                }
                Err(error) => (work.fail)(&error),
            };
            worker::end(&report, status)
        }
    }
}

/// Locks the place, unless another host process has locked it. A process that only checks the lock holds it for a moment.
fn lock(place: &OpenPlace) -> io::Result<Option<File>> {
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(lock) = place.try_lock()? {
            return Ok(Some(lock));
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Ok(None)
}

/// The parts of a host process and its workers that the caller supplies.
pub struct Work<'w, L, P> {
    /// Loads what all workers use. It must leave no thread behind.
    pub load: &'w dyn Fn() -> L,
    /// Prepares a worker, before its run is known.
    pub prepare: &'w dyn Fn(&L) -> P,
    /// Runs a command line in a worker, and returns the exit status.
    pub run: &'w dyn Fn(P, Vec<OsString>) -> u8,
    /// Ends the preparation of a worker that gets no run.
    pub discard: &'w dyn Fn(P),
    /// Reports that a worker could not take a run over, and returns the exit status.
    pub fail: &'w dyn Fn(&io::Error) -> u8,
    /// Starts another host process when this one is old.
    pub renew: &'w dyn Fn(),
}

/// The secret that clients prove to know.
struct Token {
    value: [u8; TOKEN_SIZE],
    /// Holds the descriptor that clients open. It is the first of this process after the standard streams.
    _file: File,
}

impl Token {
    fn create() -> io::Result<Self> {
        let mut value = [0; TOKEN_SIZE];
        File::open("/dev/urandom")?.read_exact(&mut value)?;
        let mut file = File::from(rustix::fs::memfd_create("codebox-token", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(&value)?;
        file.rewind()?;
        if file.as_raw_fd() != TOKEN_DESCRIPTOR {
            return Err(io::Error::other("the standard streams are closed"));
        }
        Ok(Self { value, _file: file })
    }
}

/// The socket of a host process that accepts runs, and its lock.
struct Listening {
    socket: OwnedFd,
    _lock: File,
}

struct Server<'o> {
    options: &'o Options,
    renew: &'o dyn Fn(),
    open: OpenPlace,
    /// Inode of the socket.
    inode: Option<u64>,
    token: Token,
    own: Circumstances,
    files: WatchedFiles,
    /// `None` once the process accepts no more runs.
    listening: Option<Listening>,
    /// Clients that have not sent their request yet, and the times at which they connected.
    silent: Vec<(OwnedFd, Instant)>,
    idle: Vec<Worker>,
    runs: Vec<Run>,
    /// Workers that have reported their exit status and are about to end.
    ending: Vec<Worker>,
    /// Number of runs accepted.
    count: u64,
    /// Number of clients with other circumstances since the last run.
    others: u32,
    started: Instant,
    last_run: Instant,
    /// Time at which a worker for the next run is forked.
    fork_at: Option<Instant>,
    ended: Ended,
}

/// A run in progress.
struct Run {
    /// `None` once the client is gone.
    client: Option<OwnedFd>,
    worker: Worker,
    progress: Progress,
}

/// Progress of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The worker reports its exit status.
    Running,
    /// The worker has closed its pipe without a report, and is about to end.
    Unreported,
}

/// Result of a turn of the server, in the host process or in a worker that it forked.
enum Turn {
    Ended(Ended),
    Worker(Channel),
}

/// A descriptor that is ready, with its position in the server's lists.
enum Ready {
    Listener,
    Silent(usize),
    Client(usize),
    Status(usize),
    EndedWorker(usize),
    EndingWorker(usize),
    IdleWorker(usize),
}

impl Server<'_> {
    /// Serves until nothing is left to do.
    fn serve(mut self) -> Result<Turn, ServeError> {
        let mut check_at = Instant::now() + CHECK_PERIOD;
        loop {
            if self.listening.is_none() && self.runs.is_empty() {
                return Ok(Turn::Ended(self.ended));
            }
            let now = Instant::now();
            if now >= check_at {
                check_at = now + CHECK_PERIOD;
                self.check(now);
            }
            self.silent.retain(|(_, since)| now < *since + SILENCE_LIMIT);
            if self.fork_at.is_some_and(|at| at <= now) {
                self.fork_at = None;
                if self.listening.is_some() && self.idle.is_empty() {
                    match self.fork() {
                        Ok(Some(channel)) => return Ok(Turn::Worker(channel)),
                        Ok(None) => {}
                        // The system may have too many processes. The runs in progress are not affected.
                        Err(_) => self.fork_at = Some(now + RETRY_DELAY),
                    }
                }
            }
            let silence_ends = self.silent.iter().map(|(_, since)| *since + SILENCE_LIMIT);
            let wake_at = silence_ends.chain(self.fork_at).fold(check_at, Instant::min);
            let ready = self.wait(wake_at.saturating_duration_since(Instant::now()))?;
            // The last entries of a list come first, so that removing one changes no other position.
            for ready in ready.into_iter().rev() {
                if let Some(channel) = self.handle(ready) {
                    return Ok(Turn::Worker(channel));
                }
            }
        }
    }

    /// Waits until descriptors are ready, at most for this time.
    fn wait(&self, time: Duration) -> Result<Vec<Ready>, ServeError> {
        let mut sources = Vec::new();
        let mut polled = Vec::new();
        let mut add = |source, descriptor| {
            sources.push(source);
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        };
        if let Some(listening) = &self.listening {
            add(Ready::Listener, listening.socket.as_fd());
        }
        for (index, (client, _)) in self.silent.iter().enumerate() {
            add(Ready::Silent(index), client.as_fd());
        }
        for (index, worker) in self.idle.iter().enumerate() {
            add(Ready::IdleWorker(index), worker.process.as_fd());
        }
        for (index, run) in self.runs.iter().enumerate() {
            // The end of a run is handled after its client, because the order is reversed.
            match run.progress {
                Progress::Running => add(Ready::Status(index), run.worker.status.as_fd()),
                Progress::Unreported => add(Ready::EndedWorker(index), run.worker.process.as_fd()),
            }
            if let Some(client) = &run.client {
                add(Ready::Client(index), client.as_fd());
            }
        }
        for (index, worker) in self.ending.iter().enumerate() {
            add(Ready::EndingWorker(index), worker.process.as_fd());
        }
        let time = Timespec::try_from(time).map_err(|_| failed("wait")(io::Error::other("the time is too long")))?;
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("wait")(error)),
        }
        let ready = sources.into_iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
        Ok(ready.map(|(source, _)| source).collect())
    }

    /// Handles a descriptor that is ready. Returns a channel in a worker that was forked.
    fn handle(&mut self, ready: Ready) -> Option<Channel> {
        match ready {
            Ready::Listener => self.accept(),
            Ready::Silent(index) => {
                let (client, _) = self.silent.swap_remove(index);
                return self.answer(client);
            }
            Ready::IdleWorker(index) => {
                self.idle.swap_remove(index).reap();
                self.fork_at = Some(Instant::now() + FORK_DELAY);
            }
            Ready::Client(index) => self.pass_signals(index),
            Ready::Status(index) => match self.runs[index].worker.reported() {
                Some(status) => self.finish(index, Some(status)),
                None => self.runs[index].progress = Progress::Unreported,
            },
            Ready::EndedWorker(index) => self.finish(index, None),
            Ready::EndingWorker(index) => drop(self.ending.swap_remove(index).reap()),
        }
        None
    }

    fn accept(&mut self) {
        let Some(listening) = &self.listening else { return };
        match accept_with(&listening.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(client) => {
                if self.silent.len() >= MAX_SILENT {
                    // The oldest one is the least likely to send a request.
                    let oldest = self.silent.iter().enumerate().min_by_key(|(_, (_, since))| *since);
                    oldest.map(|(index, _)| index).map(|index| self.silent.swap_remove(index));
                }
                self.silent.push((client, Instant::now()));
            }
            // The client is gone already.
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => {}
            // There is no descriptor for it. The client stays in the queue and runs its job itself.
            Err(_) => std::thread::sleep(FORK_DELAY),
        }
    }

    /// Answers a client's request. Returns a channel in a worker that was forked.
    fn answer(&mut self, client: OwnedFd) -> Option<Channel> {
        let (hello, descriptors) = requests::receive(&client)?;
        if hello.token != self.token.value {
            return None;
        }
        self.check_files();
        let is_own_program = hello.program == self.files.program;
        let reply = match hello.kind {
            RequestKind::Run if is_own_program && self.accepts(&client) => {
                return self.start(client, descriptors);
            }
            RequestKind::Run => Reply::Refused,
            RequestKind::Status => Reply::Status(self.status()),
            RequestKind::Stop => {
                self.stop_listening(Ended::Done);
                Reply::Stopping
            }
        };
        send(&client, reply);
        None
    }

    /// Returns true if a client's run can be served: there is capacity, and a worker has the client's circumstances.
    fn accepts(&mut self, client: &OwnedFd) -> bool {
        if self.listening.is_none() || self.runs.len() >= self.options.max_active {
            return false;
        }
        // A client that is gone has no circumstances.
        let Some(circumstances) = requests::circumstances(client) else { return false };
        let is_same = circumstances == self.own;
        self.others = if is_same { 0 } else { self.others + 1 };
        if self.others >= MAX_OTHERS {
            self.stop_listening(Ended::Done);
        }
        is_same
    }

    /// Passes a run to a worker. Returns a channel in a worker that was forked.
    fn start(&mut self, client: OwnedFd, descriptors: Vec<OwnedFd>) -> Option<Channel> {
        let worker = loop {
            match self.idle.pop() {
                Some(worker) if worker.is_alive() => break worker,
                Some(worker) => drop(worker.reap()),
                None => match self.fork() {
                    Ok(Some(channel)) => return Some(channel),
                    Ok(None) => {}
                    Err(_) => {
                        send(&client, Reply::Refused);
                        return None;
                    }
                },
            }
        };
        // A client that has stopped waiting runs the job itself, and cannot be sent this.
        if !send(&client, Reply::Accepted) {
            self.idle.push(worker);
            return None;
        }
        // A worker that ends meanwhile, or that cannot get the run, is reported like any other that was killed.
        if worker.pass(&descriptors).is_err() {
            worker.kill();
        }
        self.runs.push(Run { client: Some(client), worker, progress: Progress::Running });
        let now = Instant::now();
        self.count += 1;
        self.last_run = now;
        self.fork_at = Some(now + FORK_DELAY);
        if self.count >= self.options.max_runs {
            self.renew();
        }
        None
    }

    /// Passes the signals of a client on to its worker, and ends the worker if the client is gone.
    fn pass_signals(&mut self, index: usize) {
        let Run { client, worker, .. } = &mut self.runs[index];
        for _ in 0..MAX_SIGNALS {
            let received = client.as_ref().map(requests::receive_signal);
            match received {
                Some(SignalPacket::Signal(signal)) => worker.signal(signal),
                Some(SignalPacket::None) | None => return,
                Some(SignalPacket::Gone) => {
                    worker.kill();
                    *client = None;
                }
            }
        }
    }

    /// Reports the end of a run to its client: the reported status, or how the process ended.
    fn finish(&mut self, index: usize, status: Option<u8>) {
        let Run { client, worker, .. } = self.runs.swap_remove(index);
        let reply = match status {
            Some(status) => {
                self.ending.push(worker);
                Some(Reply::Exited(status))
            }
            None => worker.reap(),
        };
        if let (Some(client), Some(reply)) = (client, reply) {
            send(&client, reply);
        }
        self.last_run = Instant::now();
        self.fork_at = self.fork_at.map(|_| Instant::now());
    }

    fn status(&self) -> Status {
        Status {
            pid: std::process::id(),
            runs: self.count,
            active: self.runs.len() as u32,
            age: self.started.elapsed().as_secs(),
            idle_limit: self.options.idle_limit.as_secs(),
        }
    }

    /// Forks a worker for a later run. Returns its channel in the worker.
    fn fork(&mut self) -> io::Result<Option<Channel>> {
        match Worker::fork()? {
            ForkedWorker::Parent(worker) => {
                self.idle.push(worker);
                Ok(None)
            }
            ForkedWorker::Child(channel) => Ok(Some(channel)),
        }
    }

    /// Stops to listen if the process is idle or old, or if its files have changed.
    fn check(&mut self, now: Instant) {
        let is_idle = self.runs.is_empty() && now.duration_since(self.last_run) >= self.options.idle_limit;
        // A worker that has reported its exit status has nothing left to do.
        self.ending.iter().for_each(Worker::kill);
        self.check_files();
        if is_idle {
            self.stop_listening(Ended::Done);
        } else if now.duration_since(self.started) >= self.options.max_age {
            self.renew();
        }
    }

    fn check_files(&mut self) {
        // Without its socket, the whole place may have been removed, and another host process would create it again.
        if self.files.is_program_replaced() || self.open.socket_inode() != self.inode {
            self.stop_listening(Ended::Done);
        } else if self.files.have_changed() {
            self.renew();
        }
    }

    fn renew(&mut self) {
        if self.listening.is_some() {
            self.stop_listening(Ended::Renewed);
            (self.renew)();
        }
    }

    /// Accepts no more runs. Clients that find no socket run their jobs themselves.
    fn stop_listening(&mut self, why: Ended) {
        if self.listening.is_some() {
            if self.open.socket_inode() == self.inode {
                let _ = self.open.remove_socket();
            }
            self.listening = None;
            self.ended = why;
            self.idle.drain(..).for_each(Worker::discard);
        }
    }
}

/// Sends a reply. Returns false if the client is gone.
fn send(client: &OwnedFd, reply: Reply) -> bool {
    rustix::net::send(client, &reply.encode(), SendFlags::NOSIGNAL).is_ok()
}

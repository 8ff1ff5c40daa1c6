//! The process of a box.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codebox_core::{
    BoxInfo, CancelToken, ResultKind, RunnerError, SecretValues, SessionContainer, ShimCall, Sweep, mask_secrets,
    mask_words,
};
use codebox_runner::{BoxLogEntry, BoxStart, CommandBox, Runner};
use codebox_service::Request;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::log::Log;
use super::place::{BoxDir, BoxPlace};
use super::serve::{refuse_client, serve_client};

/// Interval between checks for idleness and for the owner.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time that the end of the box waits for its clients to read their last answers.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Time in which a client reads its last answer.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of clients at once.
const MAX_CLIENTS: u32 = 1024;

/// State of the process.
pub(super) struct Keeper {
    pub sandbox: CommandBox,
    info: BoxInfo,
    dir: BoxDir,
    log: Mutex<Log>,
    /// Values that are masked in the log.
    secrets: Mutex<SecretValues>,
    pub commands: AtomicU64,
    pub running: AtomicU32,
    /// Time of the last request.
    last_use: Mutex<Instant>,
    /// Notified when a client stops the box.
    pub stop: Notify,
    /// Cancelled when the box ends, with its commands.
    pub ending: CancelToken,
    clients: AtomicU32,
}

/// Reason for which the process ends.
enum End {
    /// A client has stopped the box.
    Stopped,
    /// The box has ended by itself, or is not used any more.
    Over(String),
}

/// Starts a box and keeps it until it is stopped, is not used for a while, or ends. `is_ready` is called with the facts about the box once
/// it accepts commands, and returns false if its caller is gone, with which the box ends.
///
/// # Errors
/// Returns an error if there is a box of this name, or if it cannot be started.
pub async fn keep_box(
    place: &BoxPlace,
    runner: Arc<Runner>,
    start: BoxStart,
    is_ready: impl FnOnce(&BoxInfo) -> bool,
) -> Result<(), RunnerError> {
    let BoxStart { job, container: SessionContainer { image, engine }, settings, idle, owner } = start;
    if let Some(owner) = owner.filter(|owner| !is_alive(*owner)) {
        let line = format!("cannot start a box for the owner {owner}: there is no such process");
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("give the id of a process that runs"));
    }
    let name = settings.name.clone().unwrap_or_default();
    let failed = |action: &str| {
        let action = action.to_owned();
        let name = name.clone();
        move |error: io::Error| {
            RunnerError::new(
                ResultKind::InternalError,
                format!("cannot {action} the directory of the box {name}: {error}"),
            )
        }
    };
    let dir = place.create(&name).map_err(failed("create"))?;
    let Some(lock) = dir.0.lock().map_err(failed("lock"))? else {
        let line = format!("there is a box {name} already");
        return Err(RunnerError::new(ResultKind::InvalidRequest, line).with_fix("use another name, or stop it"));
    };
    let has_earlier = dir.read_info().is_some();
    if has_earlier {
        // A box whose process was killed leaves its container, which has the name.
        let runner = Arc::clone(&runner);
        let _ = tokio::task::spawn_blocking(move || runner.sweep(Sweep::Remove)).await;
    }
    let secrets = Mutex::new(SecretValues::new(job.env.values().cloned()));
    let request = Request { image, engine, ..Request::try_from(job)? };
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed("watch"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed("watch"))?;
    let sandbox = match runner.start_box(request, settings).await {
        Ok(sandbox) => sandbox.spilling_to(dir.output()),
        Err(error) => {
            if !has_earlier {
                let _ = dir.remove();
            }
            return Err(error);
        }
    };
    let info = info_of(&sandbox);
    let listened = dir.clear().and_then(|()| dir.write_info(&info)).and_then(|()| listen(&dir));
    let listener = match listened {
        Ok(listener) => listener,
        Err(error) => {
            let _ = sandbox.stop().await;
            return Err(failed("use")(error));
        }
    };
    let has_caller = is_ready(&info);
    let log = Mutex::new(Log::create(dir.path()));
    let keeper = Arc::new(Keeper {
        sandbox,
        info,
        dir,
        log,
        secrets,
        commands: AtomicU64::new(0),
        running: AtomicU32::new(0),
        last_use: Mutex::new(Instant::now()),
        stop: Notify::new(),
        ending: CancelToken::new(),
        clients: AtomicU32::new(0),
    });
    let end = tokio::select! {
        biased;
        () = std::future::ready(()), if !has_caller => End::Stopped,
        end = keeper.accept(&listener, idle, owner) => end,
        reason = keeper.record_calls() => End::Over(reason),
        () = keeper.stop.notified() => End::Stopped,
        _ = hang_up.recv() => End::Stopped,
        _ = terminate.recv() => End::Stopped,
    };
    drop(listener);
    keeper.end(end).await?;
    drop(lock);
    Ok(())
}

fn listen(dir: &BoxDir) -> io::Result<UnixListener> {
    let listener = dir.0.listen()?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

fn info_of(sandbox: &CommandBox) -> BoxInfo {
    let facts = sandbox.facts();
    BoxInfo {
        name: sandbox.name().to_owned(),
        created_ms: now_ms(),
        engine: facts.provenance.backend.to_string(),
        image: facts.provenance.image.clone().unwrap_or_default(),
        container_id: facts.provenance.container_id.clone().unwrap_or_default(),
        connection: facts.connection,
        shims: facts.shims.clone(),
        commands: 0,
        running: 0,
        pid: std::process::id(),
        ended: None,
    }
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Keeper {
    pub(super) fn info(&self) -> BoxInfo {
        let (commands, running) = (self.commands.load(Ordering::Relaxed), self.running.load(Ordering::Relaxed));
        BoxInfo { commands, running, ..self.info.clone() }
    }

    /// Marks the box as used.
    pub(super) fn touch(&self) {
        *self.last_use.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Serves clients until the box is over.
    async fn accept(self: &Arc<Self>, listener: &UnixListener, idle: Option<Duration>, owner: Option<u32>) -> End {
        let inode = self.dir.0.socket_inode();
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    let Ok((stream, _)) = accepted else { continue };
                    let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
                    if !is_own {
                        continue;
                    }
                    if self.clients.load(Ordering::Relaxed) >= MAX_CLIENTS {
                        tokio::spawn(refuse_client(stream));
                        continue;
                    }
                    self.clients.fetch_add(1, Ordering::Relaxed);
                    let keeper = Arc::clone(self);
                    tokio::spawn(async move {
                        // The end of a connection is no failure of the box.
                        let _ = tokio::select! {
                            served = serve_client(&keeper, stream) => served,
                            // The clients of commands get an answer before.
                            () = async {
                                keeper.ending.cancelled().await;
                                sleep(LAST_ANSWER_TIMEOUT).await;
                            } => Ok(()),
                        };
                        keeper.clients.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                _ = ticks.tick() => {
                    if self.dir.0.socket_inode() != inode {
                        return End::Over("its directory was removed".to_owned());
                    }
                    if owner.is_some_and(|owner| !is_alive(owner)) {
                        return End::Over("its owner has ended".to_owned());
                    }
                    let idle_for = self.last_use.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
                    let is_idle = self.running.load(Ordering::Relaxed) == 0 && idle.is_some_and(|idle| idle_for >= idle);
                    if is_idle {
                        return End::Over("it was not used".to_owned());
                    }
                }
            }
        }
    }

    /// Records calls of commands with shims until the box ends, or until a call that must be recorded cannot be, and returns the
    /// reason for the end.
    async fn record_calls(&self) -> String {
        while let Some(call) = self.sandbox.next_shim_call().await {
            self.touch();
            self.log_call(&call);
            let masked = |text: &str| self.masked(text);
            if let Err(error) = tokio::task::block_in_place(|| self.sandbox.record_shim_call(&call, &masked)) {
                return format!("a call in it could not be recorded: {}", error.message());
            }
        }
        self.sandbox.ended().await
    }

    fn log_call(&self, call: &ShimCall) {
        let entry = BoxLogEntry {
            time_ms: now_ms(),
            is_shim: true,
            argv: call.argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            status: call.status,
            wall_ms: u64::try_from(call.wall.as_millis()).unwrap_or(u64::MAX),
            spilled: call.spilled.iter().cloned().collect(),
        };
        self.add(entry);
    }

    /// Masks the values of the variables of a command in the log from now on: also a process that outlives the command has them.
    pub(super) fn hide(&self, values: impl Iterator<Item = String>) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        values.for_each(|value| secrets.add(value));
    }

    /// Returns a text in which secrets are masked.
    pub(super) fn masked(&self, text: &str) -> String {
        mask_secrets(text, &self.secrets.lock().unwrap_or_else(PoisonError::into_inner).all())
    }

    /// Adds an entry to the log, with secrets masked.
    pub(super) fn add(&self, mut entry: BoxLogEntry) {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        mask_words(&mut entry.argv, &secrets.all());
        drop(secrets);
        self.log.lock().unwrap_or_else(PoisonError::into_inner).add(self.dir.path(), &entry);
    }

    /// Ends the box. Its log and its output are kept if it has ended by itself.
    async fn end(self: Arc<Self>, end: End) -> Result<(), RunnerError> {
        // Clients of commands learn that the box has ended, and the one that stops it waits for the end of its connection.
        self.dir.0.remove_socket();
        if let End::Over(reason) = &end {
            let _ = self.dir.write_info(&BoxInfo { ended: Some(reason.clone()), ..self.info() });
        }
        let until = Instant::now() + END_TIMEOUT;
        let mut keeper = self;
        let keeper = loop {
            match Arc::try_unwrap(keeper) {
                Ok(keeper) => break keeper,
                Err(shared) => {
                    shared.ending.cancel();
                    keeper = shared;
                    if Instant::now() > until {
                        // The container ends with its connection, which ends with this process.
                        return Ok(());
                    }
                    sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let stopped = timeout(4 * END_TIMEOUT, keeper.sandbox.stop()).await;
        if matches!(end, End::Stopped) {
            let _ = keeper.dir.remove();
        }
        stopped.unwrap_or(Ok(()))
    }
}

fn is_alive(pid: u32) -> bool {
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // A process of another user is alive too. One that has ended, and for which its parent has not waited, is not.
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
        && !has_ended(pid)
}

/// Returns true for a process that has ended, and for which its parent has not waited.
fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and can contain any.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with(['Z', 'X']))
}

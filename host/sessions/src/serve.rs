//! The process that keeps the sessions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use codebox_runner::Runner;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::connection;
use crate::keeper::Keeper;
use crate::place::Place;

/// Maximum number of clients at once.
const MAX_CLIENTS: usize = 256;

/// Maximum time that the end of the process waits for its clients.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval at which that is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of the process.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Time without a request after which a session is saved, and its interpreter released.
    pub park_after: Duration,
    /// Time without a request after which the process saves all sessions and ends.
    pub idle_limit: Duration,
}

/// State of the process.
pub(crate) struct Process {
    pub keeper: Keeper,
    /// Notified when a client asks for the end of the process.
    pub end: Notify,
    is_ending: AtomicBool,
    /// True if a client has requested the end.
    is_requested: AtomicBool,
    /// True while idle sessions are parked.
    is_parking: AtomicBool,
    clients: AtomicUsize,
}

impl Process {
    /// Returns true if the process accepts no further clients.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Ends the process, although clients are connected.
    pub(crate) fn request_end(&self) {
        self.is_requested.store(true, Ordering::SeqCst);
        self.end.notify_one();
    }

    /// Parks sessions that were not used for this time, while clients are served. `is_over` ends the process afterwards, if all
    /// sessions are saved.
    fn park_in_background(self: &Arc<Self>, idle: Duration, is_over: bool) {
        if self.is_parking.swap(true, Ordering::SeqCst) {
            return;
        }
        let process = Arc::clone(self);
        tokio::spawn(async move {
            let left = process.keeper.park_idle(idle).await;
            if is_over && left.is_empty() {
                process.end.notify_one();
            }
            process.is_parking.store(false, Ordering::SeqCst);
        });
    }
}

/// Serves clients until no request has arrived for a while, or until a client asks for the end. `is_ready` is called when clients can
/// connect. Returns at once if another process keeps the sessions.
///
/// # Errors
/// The system's error if the directory or the socket cannot be used.
pub async fn serve(place: &Place, runner: Arc<Runner>, options: Options, is_ready: impl FnOnce()) -> io::Result<()> {
    let Some(_lock) = place.lock()? else { return Ok(()) };
    let process = Arc::new(Process {
        keeper: Keeper::new(runner, place.saved()),
        end: Notify::new(),
        is_ending: AtomicBool::new(false),
        is_requested: AtomicBool::new(false),
        is_parking: AtomicBool::new(false),
        clients: AtomicUsize::new(0),
    });
    let mut is_ready = Some(is_ready);
    loop {
        let listener = place.listen()?;
        let inode = place.socket_inode();
        listener.set_nonblocking(true)?;
        process.is_ending.store(false, Ordering::SeqCst);
        if let Some(is_ready) = is_ready.take() {
            is_ready();
        }
        accept_until_end(&process, place, UnixListener::from_std(listener)?, inode, options).await;
        process.is_ending.store(true, Ordering::SeqCst);
        let is_own = place.socket_inode() == inode;
        if is_own {
            place.remove_socket();
        }
        // Clients that were accepted before end their requests.
        let until = Instant::now() + END_TIMEOUT;
        while process.clients.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            sleep(CHECK_INTERVAL).await;
        }
        let left = process.keeper.park_idle(Duration::ZERO).await;
        // A session that was used meanwhile goes on. Without its directory, the process cannot be reached.
        if left.is_empty() || !is_own {
            return Ok(());
        }
        process.is_requested.store(false, Ordering::SeqCst);
    }
}

/// Serves clients until the end of the process is due.
async fn accept_until_end(
    process: &Arc<Process>,
    place: &Place,
    listener: UnixListener,
    inode: Option<u64>,
    options: Options,
) {
    let mut last = Instant::now();
    let period = (options.park_after.min(options.idle_limit) / 4).max(Duration::from_millis(10));
    let mut ticks = tokio::time::interval(period);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                last = Instant::now();
                if let Ok((stream, _)) = accepted {
                    accept(process, stream);
                }
            }
            _ = ticks.tick() => {
                if process.clients.load(Ordering::SeqCst) > 0 {
                    last = Instant::now();
                }
                if place.socket_inode() != inode {
                    // Its directory is removed, or another process has replaced it.
                    return;
                }
                let is_over = last.elapsed() >= options.idle_limit;
                process.park_in_background(if is_over { Duration::ZERO } else { options.park_after }, is_over);
            }
            () = process.end.notified() => {
                let is_idle = process.clients.load(Ordering::SeqCst) == 0 && last.elapsed() >= options.idle_limit;
                if is_idle || process.is_requested.load(Ordering::SeqCst) {
                    return;
                }
            }
        }
    }
}

/// Serves a client of the same user.
fn accept(process: &Arc<Process>, stream: UnixStream) {
    let is_own = stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw());
    if !is_own || process.clients.fetch_add(1, Ordering::SeqCst) >= MAX_CLIENTS {
        if is_own {
            process.clients.fetch_sub(1, Ordering::SeqCst);
        }
        return;
    }
    let process = Arc::clone(process);
    tokio::spawn(async move {
        // The end of a connection is no failure of the process.
        let _ = Box::pin(connection::serve(&process, stream)).await;
        process.clients.fetch_sub(1, Ordering::SeqCst);
    });
}

//! The process that keeps the sessions.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codebox_runner::Runner;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::connection;
use crate::keeper::Keeper;
use crate::place::Place;

/// Maximum number of clients at once.
const MAX_CLIENTS: usize = 256;

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
    clients: AtomicUsize,
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
        clients: AtomicUsize::new(0),
    });
    let listener = place.listen()?;
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    is_ready();
    let mut last = Instant::now();
    loop {
        let interval = (options.park_after.min(options.idle_limit) / 4).max(Duration::from_millis(10));
        tokio::select! {
            accepted = listener.accept() => {
                last = Instant::now();
                if let Ok((stream, _)) = accepted {
                    accept(&process, stream);
                }
            }
            () = sleep_until(Instant::now() + interval) => {
                if process.clients.load(Ordering::SeqCst) > 0 {
                    last = Instant::now();
                }
                let is_over = last.elapsed() >= options.idle_limit;
                let idle = if is_over { Duration::ZERO } else { options.park_after };
                if process.keeper.park_idle(idle).await && is_over {
                    break;
                }
            }
            () = process.end.notified() => {
                if process.keeper.park_idle(Duration::ZERO).await {
                    break;
                }
            }
        }
    }
    // A client that has connected meanwhile finds no process, and starts another one.
    place.remove_socket();
    Ok(())
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
        let _ = connection::serve(&process, stream).await;
        process.clients.fetch_sub(1, Ordering::SeqCst);
    });
}

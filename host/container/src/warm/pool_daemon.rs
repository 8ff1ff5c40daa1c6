//! The pool daemon, which keeps containers ready for other processes of the same user.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use codebox_core::Instance as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{interval, sleep, timeout};

use super::socket_dir::check_same_user;
use super::wire::{MAX_LINE_SIZE, PoolReply};
use super::{Pool, PoolRequest, SocketDir};
use crate::engine::CALL_TIMEOUT;
use crate::error::ContainerError;
use crate::instance::ContainerInstance;

/// Delay before new containers are created, so that the job that has just received one has the machine for itself.
const FILL_DELAY: Duration = Duration::from_millis(500);

/// Interval between sweeps for leftovers of dead owners.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Request to end a daemon.
const END_REQUEST: &[u8] = b"end\n";

/// Interval between checks for shapes that are no longer requested.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps containers ready until none have been requested for a while. Returns at once if another daemon is already
/// running.
pub(crate) async fn run_pool_daemon(
    pool: Pool,
    socket_dir: &SocketDir,
    first: &PoolRequest,
) -> Result<(), ContainerError> {
    // The parent process may exit, and signals to its terminal or process group must not reach this process.
    let _ = rustix::process::setsid();
    let failed = |error| ContainerError::io("listen in", Path::new("the directory of the container pool"))(error);
    let Some((listener, lock)) = socket_dir.listen().map_err(failed)? else { return Ok(()) };
    // The working directory of the first run may have to be removed or unmounted.
    let _ = std::env::set_current_dir("/");
    let pool_daemon = Arc::new(PoolDaemon { pool, build: super::build(), end: Notify::new() });
    // Registers the shape. The first client no longer needs a container.
    drop(pool_daemon.pool.take(&first.shape, first.count));
    pool_daemon.fill_after(Duration::ZERO);
    let (mut check, mut sweep) = (interval(CHECK_INTERVAL), interval(SWEEP_INTERVAL));
    let (mut hang_up, mut terminate) = (request(SignalKind::hangup())?, request(SignalKind::terminate())?);
    let mut leases = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            Ok((socket, _)) = listener.accept() => {
                let pool_daemon = Arc::clone(&pool_daemon);
                leases.spawn(async move { pool_daemon.serve(socket).await });
            }
            Some(_) = leases.join_next() => {}
            _ = check.tick() => {
                if !pool_daemon.pool.has_active_shapes() && leases.is_empty() {
                    break;
                }
                // Filling the pool also removes containers that are no longer needed.
                pool_daemon.fill_after(Duration::ZERO);
            }
            _ = sweep.tick() => {
                let pool_daemon = Arc::clone(&pool_daemon);
                tokio::spawn(async move { pool_daemon.pool.sweep().await });
            }
            () = pool_daemon.end.notified() => break,
            _ = hang_up.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    // From now on clients find no daemon, and start another one once the lock is free.
    socket_dir.remove_socket();
    drop(listener);
    pool_daemon.pool.close().await;
    drop(lock);
    while leases.join_next().await.is_some() {}
    pool_daemon.pool.close().await;
    Ok(())
}

fn request(kind: SignalKind) -> Result<tokio::signal::unix::Signal, ContainerError> {
    signal(kind).map_err(ContainerError::io("wait for signals in", Path::new("the container pool daemon")))
}

struct PoolDaemon {
    pool: Pool,
    build: String,
    /// Notified by a client that needs no containers kept ready, or that is another build of codebox.
    end: Notify,
}

impl PoolDaemon {
    async fn serve(self: Arc<Self>, socket: UnixStream) -> io::Result<()> {
        check_same_user(&socket)?;
        let mut socket = BufReader::new(socket);
        let mut line = Vec::new();
        timeout(CALL_TIMEOUT, (&mut socket).take(MAX_LINE_SIZE).read_until(b'\n', &mut line)).await??;
        if line == END_REQUEST {
            self.end.notify_one();
            return send_reply(&mut socket, &PoolReply::Ending).await;
        }
        let pool_request: PoolRequest = serde_json::from_slice(&line)?;
        if pool_request.build != self.build || pool_request.count == 0 {
            self.end.notify_one();
            return send_reply(&mut socket, &PoolReply::Ending).await;
        }
        let Some(ready) = self.pool.take(&pool_request.shape, pool_request.count) else {
            send_reply(&mut socket, &PoolReply::None).await?;
            self.fill_after(FILL_DELAY);
            return Ok(());
        };
        self.fill_after(FILL_DELAY);
        lend(ready, socket).await
    }

    fn fill_after(self: &Arc<Self>, pause: Duration) {
        let pool_daemon = Arc::clone(self);
        tokio::spawn(async move {
            sleep(pause).await;
            pool_daemon.pool.fill().await;
        });
    }
}

/// Lends a container as long as the client holds the connection, and removes the container afterwards.
async fn lend(mut ready: ContainerInstance, mut socket: BufReader<UnixStream>) -> io::Result<()> {
    let sent = send_reply(&mut socket, &PoolReply::Leased(ready.lease())).await;
    if sent.is_ok() {
        ready.agent_connection().forward(&mut socket).await;
    }
    drop(socket);
    let _ = Box::new(ready).close().await;
    sent
}

async fn send_reply(socket: &mut BufReader<UnixStream>, answer: &PoolReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    socket.write_all(&line).await
}

/// Ends every daemon that listens in a directory.
pub(crate) async fn stop_daemons(path: &Path) {
    for socket_dir in SocketDir::list(path) {
        let request = async {
            let mut socket = socket_dir.connect().await?;
            socket.write_all(END_REQUEST).await?;
            socket.read(&mut [0; 64]).await
        };
        // A daemon that does not answer is no longer running.
        let _ = timeout(CALL_TIMEOUT, request).await;
    }
}

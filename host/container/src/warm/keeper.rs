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

use super::folder::is_ours;
use super::wire::{Answered, LONGEST};
use super::{Asked, Folder, Pool};
use crate::engine::PATIENCE;
use crate::error::ContainerError;
use crate::instance::ContainerInstance;

/// Delay before new containers are created, so that the job that has just received one has the machine for itself.
const HEAD_START: Duration = Duration::from_millis(500);

/// Interval between sweeps for leftovers of dead owners.
const SWEEP: Duration = Duration::from_secs(60);

/// Request to end a daemon.
const END: &[u8] = b"end\n";

/// Interval between checks for shapes that are no longer requested.
const LOOK: Duration = Duration::from_secs(5);

/// Keeps containers ready until none have been requested for a while. Returns at once if another daemon is already
/// running.
pub(crate) async fn keep(pool: Pool, folder: &Folder, first: &Asked) -> Result<(), ContainerError> {
    // The parent process may exit, and signals to its terminal or process group must not reach this process.
    let _ = rustix::process::setsid();
    let failed = |error| ContainerError::io("listen in", Path::new("the directory of the container pool"))(error);
    let Some((listener, lock)) = folder.listen().map_err(failed)? else { return Ok(()) };
    // The working directory of the first run may have to be removed or unmounted.
    let _ = std::env::set_current_dir("/");
    let keeper = Arc::new(Keeper { pool, build: super::build(), end: Notify::new() });
    // Registers the shape. The first client no longer needs a container.
    drop(keeper.pool.take(&first.shape, first.count));
    keeper.fill_after(Duration::ZERO);
    let (mut look, mut sweep) = (interval(LOOK), interval(SWEEP));
    let (mut hang_up, mut terminate) = (told(SignalKind::hangup())?, told(SignalKind::terminate())?);
    let mut lent = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            Ok((socket, _)) = listener.accept() => {
                let keeper = Arc::clone(&keeper);
                lent.spawn(async move { keeper.serve(socket).await });
            }
            Some(_) = lent.join_next() => {}
            _ = look.tick() => {
                if !keeper.pool.is_wanted() && lent.is_empty() {
                    break;
                }
                // Filling the pool also removes containers that are no longer wanted.
                keeper.fill_after(Duration::ZERO);
            }
            _ = sweep.tick() => {
                let keeper = Arc::clone(&keeper);
                tokio::spawn(async move { keeper.pool.sweep().await });
            }
            () = keeper.end.notified() => break,
            _ = hang_up.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    // From now on clients find no daemon, and start another one once the lock is free.
    folder.leave();
    drop(listener);
    keeper.pool.close().await;
    drop(lock);
    while lent.join_next().await.is_some() {}
    keeper.pool.close().await;
    Ok(())
}

fn told(kind: SignalKind) -> Result<tokio::signal::unix::Signal, ContainerError> {
    signal(kind).map_err(ContainerError::io("wait for signals in", Path::new("the container pool daemon")))
}

struct Keeper {
    pool: Pool,
    build: String,
    /// Notified by a client that wants no containers kept ready, or that is another build of codebox.
    end: Notify,
}

impl Keeper {
    async fn serve(self: Arc<Self>, socket: UnixStream) -> io::Result<()> {
        is_ours(&socket)?;
        let mut socket = BufReader::new(socket);
        let mut line = Vec::new();
        timeout(PATIENCE, (&mut socket).take(LONGEST).read_until(b'\n', &mut line)).await??;
        if line == END {
            self.end.notify_one();
            return say(&mut socket, &Answered::Ending).await;
        }
        let asked: Asked = serde_json::from_slice(&line)?;
        if asked.build != self.build || asked.count == 0 {
            self.end.notify_one();
            return say(&mut socket, &Answered::Ending).await;
        }
        let Some(ready) = self.pool.take(&asked.shape, asked.count) else {
            say(&mut socket, &Answered::None).await?;
            self.fill_after(HEAD_START);
            return Ok(());
        };
        self.fill_after(HEAD_START);
        lend(ready, socket).await
    }

    fn fill_after(self: &Arc<Self>, pause: Duration) {
        let keeper = Arc::clone(self);
        tokio::spawn(async move {
            sleep(pause).await;
            keeper.pool.fill().await;
        });
    }
}

/// Lends a container as long as the client holds the connection, and removes the container afterwards.
async fn lend(mut ready: ContainerInstance, mut socket: BufReader<UnixStream>) -> io::Result<()> {
    let said = say(&mut socket, &Answered::Lent(ready.lease())).await;
    if said.is_ok() {
        ready.talk().carry(&mut socket).await;
    }
    drop(socket);
    let _ = Box::new(ready).close().await;
    said
}

async fn say(socket: &mut BufReader<UnixStream>, answer: &Answered) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    socket.write_all(&line).await
}

/// Ends every daemon that listens in a directory.
pub(crate) async fn end_all(path: &Path) {
    for folder in Folder::all(path) {
        let told = async {
            let mut socket = folder.connect().await?;
            socket.write_all(END).await?;
            socket.read(&mut [0; 64]).await
        };
        // A daemon that does not answer is no longer running.
        let _ = timeout(PATIENCE, told).await;
    }
}

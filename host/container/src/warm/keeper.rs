//! A process that keeps containers ready for others of the same user.

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

/// How long a job that has just been given a container has the machine for itself.
const HEAD_START: Duration = Duration::from_millis(500);

/// How often it is looked for what dead owners left.
const SWEEP: Duration = Duration::from_secs(60);

/// Ends a keeper.
const END: &[u8] = b"end\n";

/// How often it is looked whether anybody still wants anything.
const LOOK: Duration = Duration::from_secs(5);

/// Keeps containers ready until nobody asks for any, for a while; at once nothing where another keeper is.
pub(crate) async fn keep(pool: Pool, folder: &Folder, first: &Asked) -> Result<(), ContainerError> {
    // Who started this process may end; what is sent to its terminal or its group is not for this one.
    let _ = rustix::process::setsid();
    let failed = |error| ContainerError::io("listen in", Path::new("the folder of keepers"))(error);
    let Some((listener, lock)) = folder.listen().map_err(failed)? else { return Ok(()) };
    // The directory that the first run was started in may be wanted back.
    let _ = std::env::set_current_dir("/");
    let keeper = Arc::new(Keeper { pool, build: super::build(), end: Notify::new() });
    // The first to ask has no use for one any more.
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
                // Also what nobody wants any more is done away with there.
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
    // From now on who asks finds nobody, and starts a keeper of its own once the lock is free.
    folder.leave();
    drop(listener);
    keeper.pool.close().await;
    drop(lock);
    while lent.join_next().await.is_some() {}
    keeper.pool.close().await;
    Ok(())
}

fn told(kind: SignalKind) -> Result<tokio::signal::unix::Signal, ContainerError> {
    signal(kind).map_err(ContainerError::io("wait for signals in", Path::new("the keeper")))
}

struct Keeper {
    pool: Pool,
    build: String,
    /// Somebody wants nothing kept ready any more, or has another build of codebox.
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

/// Lends a container for as long as the other end holds the connection, and removes it.
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

/// Ends every keeper that listens in a folder.
pub(crate) async fn end_all(path: &Path) {
    for folder in Folder::all(path) {
        let told = async {
            let mut socket = folder.connect().await?;
            socket.write_all(END).await?;
            socket.read(&mut [0; 64]).await
        };
        // One that does not answer is no keeper any more.
        let _ = timeout(PATIENCE, told).await;
    }
}

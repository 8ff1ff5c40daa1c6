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

/// How often it is looked whether anybody still wants anything.
const LOOK: Duration = Duration::from_secs(5);

/// Keeps containers ready until nobody asks for any, for a while; at once nothing where another keeper is.
pub(crate) async fn keep(pool: Pool, folder: &Folder, first: &Asked) -> Result<(), ContainerError> {
    // Who started this process may end; what is sent to its terminal or its group is not for this one.
    let _ = rustix::process::setsid();
    let failed = |error| ContainerError::io("listen in", Path::new("the folder of keepers"))(error);
    let Some((listener, _lock)) = folder.listen().map_err(failed)? else { return Ok(()) };
    let keeper = Arc::new(Keeper { pool, agent: first.agent.clone(), end: Notify::new() });
    // The first to ask has no use for one any more.
    drop(keeper.pool.take(&first.shape, first.count));
    keeper.fill_after(Duration::ZERO);
    let mut look = interval(LOOK);
    let (mut hang_up, mut terminate) = (told(SignalKind::hangup())?, told(SignalKind::terminate())?);
    let mut lent = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            Ok((socket, _)) = listener.accept() => {
                let keeper = Arc::clone(&keeper);
                lent.spawn(async move { keeper.serve(socket).await });
            }
            Some(_) = lent.join_next() => {}
            _ = look.tick() => if !keeper.pool.is_wanted() && lent.is_empty() { break },
            () = keeper.end.notified() => break,
            _ = hang_up.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    // From now on who asks finds nobody, and starts a keeper of its own once the lock is free.
    folder.leave();
    drop(listener);
    while lent.join_next().await.is_some() {}
    keeper.pool.close().await;
    Ok(())
}

fn told(kind: SignalKind) -> Result<tokio::signal::unix::Signal, ContainerError> {
    signal(kind).map_err(ContainerError::io("wait for signals in", Path::new("the keeper")))
}

struct Keeper {
    pool: Pool,
    agent: String,
    /// Somebody wants nothing kept ready any more, or has another build of codebox.
    end: Notify,
}

impl Keeper {
    async fn serve(self: Arc<Self>, socket: UnixStream) -> io::Result<()> {
        is_ours(&socket)?;
        let mut socket = BufReader::new(socket);
        let mut line = Vec::new();
        timeout(PATIENCE, (&mut socket).take(LONGEST).read_until(b'\n', &mut line)).await??;
        let asked: Asked = serde_json::from_slice(&line)?;
        if asked.agent != self.agent {
            say(&mut socket, &Answered::Ending).await?;
            self.end.notify_one();
            return Ok(());
        }
        if asked.count == 0 {
            say(&mut socket, &Answered::Ending).await?;
            self.end.notify_one();
            return Ok(());
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

//! Client of the pool daemon.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::wire::{Answered, LONGEST};
use super::{Asked, Folder, Lease};
use crate::talk::Talk;

/// Timeout for a daemon's answer, about the time in which a new container is created.
const WAIT: Duration = Duration::from_millis(500);

/// Result of a request to a daemon.
pub(crate) enum Answer {
    /// A container, and the connection to its agent.
    Lent(Box<Lease>, Talk),
    /// No container is ready; the daemon creates some.
    None,
    /// No daemon is running.
    Nobody,
}

/// Requests a container from the daemon of an engine.
pub(crate) async fn ask(folder: &Folder, asked: &Asked) -> Answer {
    match timeout(WAIT, exchange(folder, asked)).await {
        Ok(Ok(answer)) => answer,
        // A daemon that does not answer is treated as absent.
        Ok(Err(_)) | Err(_) => Answer::Nobody,
    }
}

async fn exchange(folder: &Folder, asked: &Asked) -> io::Result<Answer> {
    let mut socket = BufReader::new(folder.connect().await?);
    let mut line = serde_json::to_vec(asked)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    line.clear();
    (&mut socket).take(LONGEST).read_until(b'\n', &mut line).await?;
    Ok(match serde_json::from_slice(&line)? {
        Answered::Lent(lease) => Answer::Lent(Box::new(lease), Talk::through(socket)),
        Answered::None => Answer::None,
        Answered::Ending => Answer::Nobody,
    })
}

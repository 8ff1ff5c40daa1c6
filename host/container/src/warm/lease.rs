//! Asking a keeper for a container.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::wire::{Answered, LONGEST};
use super::{Asked, Folder, Lease};
use crate::talk::Talk;

/// How long a keeper may take to answer: about as long as another container takes.
const WAIT: Duration = Duration::from_millis(500);

/// What became of asking.
pub(crate) enum Answer {
    /// A container, and the line to its agent.
    Lent(Box<Lease>, Talk),
    /// A keeper is there, and has none; it makes some.
    None,
    /// No keeper is there.
    Nobody,
}

/// Asks the keeper of an engine.
pub(crate) async fn ask(folder: &Folder, asked: &Asked) -> Answer {
    match timeout(WAIT, exchange(folder, asked)).await {
        Ok(Ok(answer)) => answer,
        // One that does not answer is as good as none.
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

//! Client of the pool daemon.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::wire::{MAX_LINE_SIZE, PoolReply};
use super::{PoolRequest, SocketDir};
use crate::agent_connection::AgentConnection;
use crate::lease::Lease;

/// Timeout for a daemon's answer, about the time in which a new container is created.
const DAEMON_TIMEOUT: Duration = Duration::from_millis(500);

/// Result of a request to a daemon.
pub(crate) enum AcquireResult {
    /// A container, and the connection to its agent.
    Leased(Box<Lease>, AgentConnection),
    /// No container is ready; the daemon creates some.
    None,
    /// No daemon is running.
    NoDaemon,
}

/// Requests a container from the daemon of an engine.
pub(crate) async fn acquire(socket_dir: &SocketDir, request: &PoolRequest) -> AcquireResult {
    match timeout(DAEMON_TIMEOUT, exchange(socket_dir, request)).await {
        Ok(Ok(answer)) => answer,
        // A daemon that does not answer is treated as absent.
        Ok(Err(_)) | Err(_) => AcquireResult::NoDaemon,
    }
}

async fn exchange(socket_dir: &SocketDir, request: &PoolRequest) -> io::Result<AcquireResult> {
    let mut socket = BufReader::new(socket_dir.connect().await?);
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    socket.write_all(&line).await?;
    line.clear();
    (&mut socket).take(MAX_LINE_SIZE).read_until(b'\n', &mut line).await?;
    Ok(match serde_json::from_slice(&line)? {
        PoolReply::Leased(lease) => AcquireResult::Leased(Box::new(lease), AgentConnection::from_socket(socket)),
        PoolReply::None => AcquireResult::None,
        PoolReply::Ending => AcquireResult::NoDaemon,
    })
}

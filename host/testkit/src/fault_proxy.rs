//! Proxy in front of an engine's socket that injects faults.
//!
//! The proxy parses HTTP/1.1 far enough to identify the engine API call of a request: requests without a body or with a
//! `Content-Length`, one after the other on a connection, and streams after an upgrade. The proxy does not parse
//! responses: all bytes between one request and the next are the response to the first.

mod call;
mod connection;

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

pub use call::EngineCall;

/// Fault that is injected into a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes before the engine receives the request.
    CutRequest,
    /// The connection closes in the response, before this byte.
    Cut(BytePosition),
    /// The response stops before this byte, and the connection stays open.
    Stall(BytePosition),
    /// The bits of the mask are flipped in this byte of the response.
    Corrupt(BytePosition, u8),
}

/// Position of a byte in a response, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BytePosition {
    /// Counted from the start of the response.
    Response(usize),
    /// Counted from the end of the response's head.
    Body(usize),
}

/// Proxy socket of an engine, with faults. Dropping it closes all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    socket: PathBuf,
    shared: Arc<Shared>,
    _folder: TempDir,
}

/// State shared by all connections.
#[derive(Debug)]
struct Shared {
    engine: PathBuf,
    closed: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<(EngineCall, Fault)>,
    /// Calls that were received.
    calls: Vec<EngineCall>,
    /// Number of faults that were injected.
    injected_count: usize,
    /// Both ends of every connection.
    streams: Vec<UnixStream>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProxy {
    /// Starts a proxy, without faults, of the engine that listens at `engine`.
    ///
    /// # Errors
    /// Fails if the socket cannot be created.
    pub fn to(engine: &Path) -> Result<Self> {
        // The system's temporary directory is used because a socket path has a short maximum length.
        let folder = tempfile::Builder::new().prefix("codebox-test-").tempdir()?;
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
        let shared =
            Arc::new(Shared { engine: engine.to_owned(), closed: AtomicBool::new(false), state: Mutex::default() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept_connections(&listener, &accepting));
        Ok(Self { socket, shared, _folder: folder })
    }

    /// Returns the proxy's address in the notation of the engines' CLIs.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Replaces the faults: from now on, each of these calls fails each time. Clears the counters.
    pub fn set_faults(&self, faults: &[(EngineCall, Fault)]) {
        let mut state = self.shared.state();
        state.faults = faults.to_vec();
        (state.injected_count, state.calls) = (0, Vec::new());
    }

    /// Returns the number of faults that were injected since the last call of [`set_faults`](Self::set_faults).
    #[must_use]
    pub fn injected_count(&self) -> usize {
        self.shared.state().injected_count
    }

    /// Returns the calls that were received since the last call of [`set_faults`](Self::set_faults).
    #[must_use]
    pub fn calls(&self) -> Vec<EngineCall> {
        self.shared.state().calls.clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        // This connection wakes the thread that accepts connections, which then sees that the proxy is closed.
        let _ = UnixStream::connect(&self.socket);
        for stream in self.shared.state().streams.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn accept_connections(listener: &UnixListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.closed.load(Ordering::Relaxed) {
            return;
        }
        // If the engine is absent, the client's connection closes.
        let _ = client.and_then(|client| connect(client, shared));
    }
}

fn connect(client: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let engine = UnixStream::connect(&shared.engine)?;
    shared.state().streams.extend([client.try_clone()?, engine.try_clone()?]);
    connection::forward_connection(client, engine, shared)
}

#[cfg(test)]
mod tests;

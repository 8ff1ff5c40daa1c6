//! A way to an engine's socket that fails where it is told to.
//!
//! It follows HTTP/1.1 far enough to know which call of an engine's interface a request is: requests without a body or
//! with a stated length, one after the other on a connection, and streams after an upgrade. Answers are not taken
//! apart: what comes after a request and before the next one is its answer.

mod call;
mod line;

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

pub use call::EngineCall;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The connection ends before the engine hears of it.
    CutBefore,
    /// The connection ends in the answer, before this byte of it.
    Cut(Spot),
    /// Nothing more comes from this byte of the answer on, and the connection stays.
    Stall(Spot),
    /// This byte of the answer is another: these bits of it are changed.
    Corrupt(Spot, u8),
}

/// A byte of an answer, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// Counted from its first.
    Answer(usize),
    /// Counted from the first after its head.
    Body(usize),
}

/// A socket that leads to an engine, with faults; it ends with all its connections when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    socket: PathBuf,
    shared: Arc<Shared>,
    _folder: TempDir,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    engine: PathBuf,
    over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<(EngineCall, Fault)>,
    /// The calls that came.
    calls: Vec<EngineCall>,
    /// How often a fault struck.
    struck: usize,
    /// Both ends of every connection.
    open: Vec<UnixStream>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultProxy {
    /// A proxy of the engine that listens at `engine`, without any fault yet.
    ///
    /// # Errors
    /// When no socket can be made.
    pub fn to(engine: &Path) -> Result<Self> {
        // Below the system's own, as the path of a socket is short.
        let folder = tempfile::Builder::new().prefix("codebox-test-").tempdir()?;
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).with_context(|| socket.display().to_string())?;
        let shared =
            Arc::new(Shared { engine: engine.to_owned(), over: AtomicBool::new(false), state: Mutex::default() });
        let taking = Arc::clone(&shared);
        thread::spawn(move || take(&listener, &taking));
        Ok(Self { socket, shared, _folder: folder })
    }

    /// Its address, as the engines' tools write one.
    #[must_use]
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// From now on these calls fail so, each time.
    pub fn fail(&self, faults: &[(EngineCall, Fault)]) {
        let mut state = self.shared.state();
        state.faults = faults.to_vec();
        (state.struck, state.calls) = (0, Vec::new());
    }

    /// How often a fault struck since they were set.
    #[must_use]
    pub fn struck(&self) -> usize {
        self.shared.state().struck
    }

    /// The calls that came since faults were set.
    #[must_use]
    pub fn calls(&self) -> Vec<EngineCall> {
        self.shared.state().calls.clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // Whoever waits for a connection gets one, and sees that it is over.
        let _ = UnixStream::connect(&self.socket);
        for stream in self.shared.state().open.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn take(listener: &UnixListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        // A client that finds no engine sees its connection end.
        let _ = client.and_then(|client| connect(client, shared));
    }
}

fn connect(client: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let engine = UnixStream::connect(&shared.engine)?;
    shared.state().open.extend([client.try_clone()?, engine.try_clone()?]);
    line::carry(client, engine, shared)
}

#[cfg(test)]
mod tests;

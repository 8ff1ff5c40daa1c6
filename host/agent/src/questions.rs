//! Queries of a job's programs to the host: the agent forwards the queries and returns the answers.
//!
//! The job is untrusted and may be slow on purpose. Each query therefore has its own thread: a query that never ends,
//! or whose answer is never read, blocks only itself, and only until a timeout.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_agent::{ASK_SOCKET, MAX_ASK, MAX_ASKED, Word};

use crate::line::Line;

#[cfg(test)]
mod tests;

/// Timeout for reading a program's query, and for writing the answer. The connection is closed when it expires.
const PATIENCE: Duration = Duration::from_secs(10);

/// The queries of this container.
#[derive(Default)]
pub(crate) struct Questions(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a query is closed.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    is_listening: bool,
    /// Number of queries that are being read, answered or written to.
    open: usize,
    /// Number of the next query.
    next: u32,
    /// Queries that wait for an answer.
    waiting: HashMap<u32, Sender<Vec<u8>>>,
}

impl Questions {
    /// Starts listening if the agent does not listen already.
    pub(crate) fn listen(&self, line: &Line) -> io::Result<()> {
        let mut state = self.0.state();
        if !state.is_listening {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(ASK_SOCKET)?)?;
            state.is_listening = true;
            let (shared, line) = (Arc::clone(&self.0), line.clone());
            thread::spawn(move || pass(&listener, &shared, &line, PATIENCE));
        }
        Ok(())
    }

    /// Passes the host's answer to the query that waits for it.
    pub(crate) fn answer(&self, number: u32, bytes: Vec<u8>) {
        if let Some(asker) = self.0.state().waiting.remove(&number) {
            let _ = asker.send(bytes);
        }
    }

    /// Closes all queries that wait for an answer.
    pub(crate) fn give_up(&self) {
        self.0.state().waiting.clear();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another query may be open.
    fn slot(self: &Arc<Self>) -> Slot {
        let full = |state: &mut State| state.open >= MAX_ASKED;
        let mut state = self.freed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.open += 1;
        Slot(Arc::clone(self))
    }

    fn wait_for_answer(&self) -> (u32, Receiver<Vec<u8>>) {
        let (asker, answer) = channel();
        let mut state = self.state();
        let number = state.next;
        state.next = number.wrapping_add(1);
        state.waiting.insert(number, asker);
        (number, answer)
    }
}

/// A permit for one open query.
struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.state().open -= 1;
        self.0.freed.notify_one();
    }
}

/// Accepts queries. Excess queries wait in the accept queue of the kernel.
fn pass(listener: &UnixListener, shared: &Arc<Shared>, line: &Line, patience: Duration) {
    loop {
        let slot = shared.slot();
        let Ok((socket, _)) = listener.accept() else {
            // No descriptor is free until another connection closes.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let line = line.clone();
        // If the job has used up all threads, the connection is closed and its slot is free again.
        let _ = thread::Builder::new().spawn(move || {
            let _ = converse(&slot.0, &socket, &line, patience);
        });
    }
}

/// Handles one query, from its first byte to the last byte of the answer.
fn converse(shared: &Shared, socket: &UnixStream, line: &Line, patience: Duration) -> io::Result<()> {
    let question = hear(socket, Instant::now() + patience)?;
    let (number, answer) = shared.wait_for_answer();
    line.send(&Word::Ask(number, question));
    let Ok(answer) = answer.recv() else { return Ok(()) };
    say(socket, &answer, Instant::now() + patience)
}

/// Reads a query to its end.
fn hear(mut socket: &UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut question, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        socket.set_read_timeout(Some(left(until)?))?;
        match socket.read(&mut piece) {
            Ok(0) => return Ok(question),
            Ok(count) if question.len() + count <= MAX_ASK => question.extend_from_slice(&piece[..count]),
            Ok(_) => return Err(ErrorKind::FileTooLarge.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes a whole answer.
fn say(mut socket: &UnixStream, mut answer: &[u8], until: Instant) -> io::Result<()> {
    while !answer.is_empty() {
        socket.set_write_timeout(Some(left(until)?))?;
        match socket.write(answer) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => answer = &answer[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the remaining time, or an error if the deadline has passed.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

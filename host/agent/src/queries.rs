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

use codebox_agent::{Event, MAX_OPEN_QUERIES, MAX_QUERY_SIZE};

use crate::attached;
use crate::writer::EventWriter;

#[cfg(test)]
mod tests;

/// Timeout for reading a program's query, and for writing the answer. The connection is closed when it expires.
const QUERY_IO_TIMEOUT: Duration = Duration::from_secs(10);

/// The queries of this container.
#[derive(Default)]
pub(crate) struct Queries(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a query is closed.
    freed: Condvar,
}

#[derive(Default)]
struct State {
    is_listening: bool,
    /// True if the current job may query the host. The socket of an earlier job stays open.
    is_allowed: bool,
    /// Number of queries that are being read, answered or written to.
    open: usize,
    /// Number of the next query.
    next: u32,
    /// Queries that wait for an answer.
    waiting: HashMap<u32, Sender<Vec<u8>>>,
}

impl Queries {
    /// Allows queries of the current job, and starts listening if the agent does not listen already.
    pub(crate) fn listen(&self, writer: &EventWriter) -> io::Result<()> {
        let mut state = self.0.state();
        state.is_allowed = true;
        if !state.is_listening {
            let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(attached::query_socket())?)?;
            state.is_listening = true;
            let (shared, writer) = (Arc::clone(&self.0), writer.clone());
            thread::spawn(move || accept_queries(&listener, &shared, &writer, QUERY_IO_TIMEOUT));
        }
        Ok(())
    }

    /// Passes the host's answer to the query that waits for it.
    pub(crate) fn answer(&self, number: u32, bytes: Vec<u8>) {
        if let Some(responder) = self.0.state().waiting.remove(&number) {
            let _ = responder.send(bytes);
        }
    }

    /// Closes all queries that wait for an answer, and allows no others.
    pub(crate) fn cancel_all(&self) {
        let mut state = self.0.state();
        state.is_allowed = false;
        state.waiting.clear();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another query may be open.
    fn slot(self: &Arc<Self>) -> QuerySlot {
        let full = |state: &mut State| state.open >= MAX_OPEN_QUERIES;
        let mut state = self.freed.wait_while(self.state(), full).unwrap_or_else(PoisonError::into_inner);
        state.open += 1;
        QuerySlot(Arc::clone(self))
    }

    /// Registers a query. `None` if the current job may not query the host.
    fn register_query(&self) -> Option<(u32, Receiver<Vec<u8>>)> {
        let (responder, answer) = channel();
        let mut state = self.state();
        if !state.is_allowed {
            return None;
        }
        let number = state.next;
        state.next = number.wrapping_add(1);
        state.waiting.insert(number, responder);
        Some((number, answer))
    }
}

/// A permit for one open query.
struct QuerySlot(Arc<Shared>);

impl Drop for QuerySlot {
    fn drop(&mut self) {
        self.0.state().open -= 1;
        self.0.freed.notify_one();
    }
}

/// Accepts queries. Excess queries wait in the accept queue of the kernel.
fn accept_queries(listener: &UnixListener, shared: &Arc<Shared>, writer: &EventWriter, timeout: Duration) {
    loop {
        let slot = shared.slot();
        let Ok((socket, _)) = listener.accept() else {
            // No descriptor is free until another connection closes.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let writer = writer.clone();
        // If the job has used up all threads, the connection is closed and its slot is free again.
        let _ = thread::Builder::new().spawn(move || {
            let _ = handle_query(&slot.0, &socket, &writer, timeout);
        });
    }
}

/// Handles one query, from its first byte to the last byte of the answer.
fn handle_query(shared: &Shared, socket: &UnixStream, writer: &EventWriter, timeout: Duration) -> io::Result<()> {
    let query = read_query(socket, Instant::now() + timeout)?;
    let Some((number, answer)) = shared.register_query() else { return Ok(()) };
    writer.send(&Event::Query(number, query));
    let Ok(answer) = answer.recv() else { return Ok(()) };
    write_answer(socket, &answer, Instant::now() + timeout)
}

/// Reads a query to its end.
fn read_query(mut socket: &UnixStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut query, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        socket.set_read_timeout(Some(remaining(deadline)?))?;
        match socket.read(&mut piece) {
            Ok(0) => return Ok(query),
            Ok(count) if query.len() + count <= MAX_QUERY_SIZE => query.extend_from_slice(&piece[..count]),
            Ok(_) => return Err(ErrorKind::FileTooLarge.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes a whole answer.
fn write_answer(mut socket: &UnixStream, mut answer: &[u8], deadline: Instant) -> io::Result<()> {
    while !answer.is_empty() {
        socket.set_write_timeout(Some(remaining(deadline)?))?;
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
fn remaining(deadline: Instant) -> io::Result<Duration> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    if remaining.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(remaining) }
}

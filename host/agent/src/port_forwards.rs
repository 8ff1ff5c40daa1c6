//! The agent's side of the port forwards: one thread that polls all sockets.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use codebox_agent::Event;
use codebox_agent::port_forward::{MAX_CHUNK_SIZE, MAX_CONNECTIONS, PortForward, StreamEvent, WINDOW};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::writer::EventWriter;

/// Pause before connections are accepted again after accepting one has failed, for example because no descriptor is
/// free.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Handle of the thread that serves the port forwards.
#[derive(Default, Clone)]
pub(crate) struct PortForwarder(Option<ForwarderHandle>);

#[derive(Clone)]
struct ForwarderHandle {
    port_forwards: Vec<PortForward>,
    pending: Arc<Mutex<Vec<Command>>>,
    wake: Arc<UnixStream>,
}

enum Command {
    /// An event from the host for a connection.
    StreamEvent(u32, StreamEvent),
    /// Start of a new job, or a kill of the current one: closes all open connections.
    Reset,
    /// End of all programs. The sender is dropped when all data from the programs has been forwarded.
    Flush(Sender<()>),
}

impl PortForwarder {
    /// Starts listening on `port_forwards`. If the agent listens already, closes the connections of the previous job.
    ///
    /// Returns an error if the port forwards differ from those of the container's first job.
    pub(crate) fn open(&mut self, port_forwards: &[PortForward], writer: &EventWriter) -> io::Result<()> {
        match &self.0 {
            Some(open) if open.port_forwards == port_forwards => open.notify(Command::Reset),
            Some(_) => return Err(io::Error::other("port forwards differ from those of the first job")),
            None if port_forwards.is_empty() => {}
            None => {
                let bound = port_forwards.iter().map(|port_forward| {
                    let listener = TcpListener::bind((port_forward.address, port_forward.port))?;
                    listener.set_nonblocking(true)?;
                    Ok(listener)
                });
                let listeners = bound.collect::<io::Result<_>>()?;
                let (wake, wake_receiver) = UnixStream::pair()?;
                wake.set_nonblocking(true)?;
                wake_receiver.set_nonblocking(true)?;
                let pending = Arc::new(Mutex::new(Vec::new()));
                let forwarder = Forwarder {
                    listeners,
                    open: HashMap::new(),
                    next: 0,
                    flush_done: None,
                    pending: Arc::clone(&pending),
                    wake_receiver,
                    writer: writer.clone(),
                };
                thread::Builder::new().spawn(move || forwarder.run())?;
                self.0 = Some(ForwarderHandle { port_forwards: port_forwards.to_vec(), pending, wake: Arc::new(wake) });
            }
        }
        Ok(())
    }

    /// Passes an event from the host to its connection.
    pub(crate) fn stream_event(&self, number: u32, stream_event: StreamEvent) {
        if let Some(open) = &self.0 {
            open.notify(Command::StreamEvent(number, stream_event));
        }
    }

    /// Closes all open connections.
    pub(crate) fn close_all(&self) {
        if let Some(open) = &self.0 {
            open.notify(Command::Reset);
        }
    }

    /// Waits until the data of ended programs has been forwarded, as a kernel forwards the data of an ended process.
    /// Waits for at most `timeout`, because the remote host may not be reading.
    pub(crate) fn flush(&self, timeout: Duration) {
        if let Some(open) = &self.0 {
            let (flush_done, flushed) = channel();
            open.notify(Command::Flush(flush_done));
            let _ = flushed.recv_timeout(timeout);
        }
    }
}

impl ForwarderHandle {
    fn notify(&self, pending: Command) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(pending);
        // A full socket has already woken the thread.
        let _ = (&*self.wake).write(&[0]);
    }
}

struct Forwarder {
    listeners: Vec<TcpListener>,
    open: HashMap<u32, Connection>,
    /// Number of the next connection.
    next: u32,
    /// Dropped when the data of ended programs has been forwarded.
    flush_done: Option<Sender<()>>,
    pending: Arc<Mutex<Vec<Command>>>,
    wake_receiver: UnixStream,
    writer: EventWriter,
}

/// A connection from a program in the container.
struct Connection {
    stream: TcpStream,
    /// Bytes from the host that the program has not read.
    unread: VecDeque<u8>,
    /// Bytes that the host can still accept.
    credit: usize,
    /// True if the program sends no more data.
    guest_eof: bool,
    /// True if the program receives no more data.
    guest_stopped_reading: bool,
    /// True if the host sends no more data.
    host_eof: bool,
    /// True if the host has closed the connection.
    host_closed: bool,
}

enum Readiness {
    Wake,
    Listener(u16),
    Connection(u32, PollFlags),
}

impl Forwarder {
    fn run(mut self) {
        let mut full = false;
        loop {
            let ready = self.wait(full);
            full = false;
            for readiness in ready {
                match readiness {
                    Readiness::Wake => self.handle_commands(),
                    Readiness::Listener(port_forward) => full |= self.accept_connections(port_forward).is_err(),
                    Readiness::Connection(number, flags) => self.serve(number, flags),
                }
            }
            if self.flush_done.is_some() && self.is_flushed() {
                self.flush_done = None;
            }
        }
    }

    /// Waits until a socket is ready. If `full`, ignores the listeners and waits for at most [`ACCEPT_RETRY_DELAY`].
    fn wait(&self, full: bool) -> Vec<Readiness> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.wake_receiver.as_fd(), PollFlags::IN)];
        let mut sources = vec![(0, None)];
        if !full && self.open.len() < MAX_CONNECTIONS {
            for (port_forward, listener) in (0_u16..).zip(&self.listeners) {
                fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
                sources.push((port_forward, None));
            }
        }
        for (number, connection) in &self.open {
            // A stream without events to wait for is left out, because `poll` would report its hang-up again and again.
            if let Some(interest) = connection.interest() {
                fds.push(PollFd::from_borrowed_fd(connection.stream.as_fd(), interest));
                sources.push((0, Some(*number)));
            }
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(ACCEPT_RETRY_DELAY.subsec_nanos()) };
        if poll(&mut fds, full.then_some(&pause)).is_err() {
            return Vec::new();
        }
        let mut ready = Vec::new();
        for (position, (fd, (port_forward, connection))) in fds.iter().zip(sources).enumerate() {
            let flags = fd.revents();
            match connection {
                _ if flags.is_empty() => {}
                Some(number) => ready.push(Readiness::Connection(number, flags)),
                None if position == 0 => ready.push(Readiness::Wake),
                None => ready.push(Readiness::Listener(port_forward)),
            }
        }
        ready
    }

    fn handle_commands(&mut self) {
        let mut wake_buffer = [0; 1024];
        while matches!((&self.wake_receiver).read(&mut wake_buffer), Ok(1..)) {}
        let all = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        for pending in all {
            match pending {
                Command::Reset => self.open.clear(),
                Command::Flush(flush_done) => self.flush_done = Some(flush_done),
                Command::StreamEvent(number, stream_event) => {
                    let Some(connection) = self.open.get_mut(&number) else { continue };
                    match stream_event {
                        // The program reads no more. Without [`StreamEvent::WindowUpdate`], the host's window is used up at some
                        // point.
                        StreamEvent::Bytes(_) if connection.guest_stopped_reading => {}
                        StreamEvent::Bytes(bytes) => connection.unread.extend(bytes),
                        StreamEvent::End => connection.host_eof = true,
                        StreamEvent::Closed => (connection.host_eof, connection.host_closed) = (true, true),
                        StreamEvent::WindowUpdate(count) => {
                            connection.credit = connection
                                .credit
                                .saturating_add(usize::try_from(count).unwrap_or(usize::MAX))
                                .min(WINDOW);
                        }
                    }
                    self.serve(number, PollFlags::OUT);
                }
            }
        }
    }

    /// Returns true if no connection has more data to read and no connection is left to accept.
    fn is_flushed(&mut self) -> bool {
        let all_accepted = (0_u16..)
            .zip(0..self.listeners.len())
            .all(|(port_forward, _)| self.accept_connections(port_forward).is_ok());
        all_accepted
            && self.open.len() < MAX_CONNECTIONS
            && self.open.values().all(|connection| connection.guest_eof || connection.host_closed)
    }

    fn accept_connections(&mut self, port_forward: u16) -> io::Result<()> {
        let Some(listener) = self.listeners.get(usize::from(port_forward)) else { return Ok(()) };
        while self.open.len() < MAX_CONNECTIONS {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has already closed the connection.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            let _ = stream.set_nodelay(true);
            while self.open.contains_key(&self.next) {
                self.next = self.next.wrapping_add(1);
            }
            let number = self.next;
            self.next = number.wrapping_add(1);
            self.writer.send(&Event::Accepted(number, port_forward));
            self.open.insert(number, Connection::new(stream));
        }
        Ok(())
    }

    fn serve(&mut self, number: u32, flags: PollFlags) {
        let Some(connection) = self.open.get_mut(&number) else { return };
        let writer = &self.writer;
        let emit = |stream_event: StreamEvent| writer.send(&Event::Connection(number, stream_event));
        // Writing also detects a hang-up. Data that the program sent before the hang-up is still read below.
        if flags.intersects(PollFlags::OUT | PollFlags::HUP | PollFlags::ERR) && connection.write_unread(&emit).is_err()
        {
            connection.guest_stopped_reading = true;
            connection.unread.clear();
        }
        let broken =
            flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && connection.read_guest(&emit).is_err();
        if broken && !connection.guest_eof {
            // All data before the failure has been read.
            connection.guest_eof = true;
            emit(StreamEvent::End);
        }
        let aborted = broken || (connection.guest_stopped_reading && connection.guest_eof);
        if aborted {
            emit(StreamEvent::Closed);
        }
        let finished =
            connection.unread.is_empty() && (connection.host_closed || (connection.host_eof && connection.guest_eof));
        if aborted || finished {
            self.open.remove(&number);
        }
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let (unread, credit) = (VecDeque::new(), WINDOW);
        Self {
            stream,
            unread,
            credit,
            guest_eof: false,
            guest_stopped_reading: false,
            host_eof: false,
            host_closed: false,
        }
    }

    fn interest(&self) -> Option<PollFlags> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, !self.guest_eof && !self.host_closed && self.credit > 0);
        interest.set(PollFlags::OUT, !self.unread.is_empty());
        (!interest.is_empty()).then_some(interest)
    }

    /// Writes the pending bytes to the program.
    fn write_unread(&mut self, emit: &impl Fn(StreamEvent)) -> io::Result<()> {
        while !self.unread.is_empty() {
            let (piece, _) = self.unread.as_slices();
            match self.stream.write(piece) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.unread.drain(..count);
                    emit(StreamEvent::WindowUpdate(u32::try_from(count).unwrap_or(u32::MAX)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.host_eof && !self.host_closed {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Reads from the program, at most as many bytes as the host can accept.
    fn read_guest(&mut self, emit: &impl Fn(StreamEvent)) -> io::Result<()> {
        if self.guest_eof || self.host_closed || self.credit == 0 {
            return Ok(());
        }
        let mut piece = vec![0; self.credit.min(MAX_CHUNK_SIZE)];
        match self.stream.read(&mut piece) {
            Ok(0) => {
                self.guest_eof = true;
                emit(StreamEvent::End);
            }
            Ok(count) => {
                piece.truncate(count);
                self.credit -= count;
                emit(StreamEvent::Bytes(piece));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

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

use codebox_agent::Word;
use codebox_agent::door::{Door, MOST_CONNECTIONS, MOST_PIECE, Said, WINDOW};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::line::Line;

/// Pause before connections are accepted again after accepting one has failed, for example because no descriptor is
/// free.
const FULL: Duration = Duration::from_millis(50);

/// Handle of the thread that serves the port forwards.
#[derive(Default, Clone)]
pub(crate) struct Doors(Option<Open>);

#[derive(Clone)]
struct Open {
    doors: Vec<Door>,
    told: Arc<Mutex<Vec<Told>>>,
    wake: Arc<UnixStream>,
}

enum Told {
    /// An event from the host for a connection.
    Said(u32, Said),
    /// Start of a new job, or a kill of the current one: closes all open connections.
    Anew,
    /// End of all programs. The sender is dropped when all data from the programs has been forwarded.
    Last(Sender<()>),
}

impl Doors {
    /// Starts listening on `doors`. If the agent listens already, closes the connections of the previous job.
    ///
    /// Returns an error if the doors differ from those of the container's first job.
    pub(crate) fn open(&mut self, doors: &[Door], line: &Line) -> io::Result<()> {
        match &self.0 {
            Some(open) if open.doors == doors => open.tell(Told::Anew),
            Some(_) => return Err(io::Error::other("port forwards differ from those of the first job")),
            None if doors.is_empty() => {}
            None => {
                let bound = doors.iter().map(|door| {
                    let listener = TcpListener::bind((door.address, door.port))?;
                    listener.set_nonblocking(true)?;
                    Ok(listener)
                });
                let listeners = bound.collect::<io::Result<_>>()?;
                let (wake, woken) = UnixStream::pair()?;
                wake.set_nonblocking(true)?;
                woken.set_nonblocking(true)?;
                let told = Arc::new(Mutex::new(Vec::new()));
                let keeper = Keeper {
                    listeners,
                    open: HashMap::new(),
                    next: 0,
                    last: None,
                    told: Arc::clone(&told),
                    woken,
                    line: line.clone(),
                };
                thread::Builder::new().spawn(move || keeper.keep())?;
                self.0 = Some(Open { doors: doors.to_vec(), told, wake: Arc::new(wake) });
            }
        }
        Ok(())
    }

    /// Passes an event from the host to its connection.
    pub(crate) fn said(&self, number: u32, said: Said) {
        if let Some(open) = &self.0 {
            open.tell(Told::Said(number, said));
        }
    }

    /// Closes all open connections.
    pub(crate) fn cut(&self) {
        if let Some(open) = &self.0 {
            open.tell(Told::Anew);
        }
    }

    /// Waits until the data of ended programs has been forwarded, as a kernel forwards the data of an ended process.
    /// Waits for at most `patience`, because the remote host may not be reading.
    pub(crate) fn last_words(&self, patience: Duration) {
        if let Some(open) = &self.0 {
            let (last, passed_on) = channel();
            open.tell(Told::Last(last));
            let _ = passed_on.recv_timeout(patience);
        }
    }
}

impl Open {
    fn tell(&self, told: Told) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        // A full socket has already woken the thread.
        let _ = (&*self.wake).write(&[0]);
    }
}

struct Keeper {
    listeners: Vec<TcpListener>,
    open: HashMap<u32, Guest>,
    /// Number of the next connection.
    next: u32,
    /// Dropped when the data of ended programs has been forwarded.
    last: Option<Sender<()>>,
    told: Arc<Mutex<Vec<Told>>>,
    woken: UnixStream,
    line: Line,
}

/// A connection from a program in the container.
struct Guest {
    stream: TcpStream,
    /// Bytes from the host that the program has not read.
    behind: VecDeque<u8>,
    /// Bytes that the host can still accept.
    room: usize,
    /// True if the program sends no more data.
    guest_ended: bool,
    /// True if the program receives no more data.
    deaf: bool,
    /// True if the host sends no more data.
    host_ended: bool,
    /// True if the host has closed the connection.
    gone: bool,
}

enum Move {
    Woken,
    Knocked(u16),
    Guest(u32, PollFlags),
}

impl Keeper {
    fn keep(mut self) {
        let mut full = false;
        loop {
            let moves = self.wait(full);
            full = false;
            for moved in moves {
                match moved {
                    Move::Woken => self.hear(),
                    Move::Knocked(door) => full |= self.let_in(door).is_err(),
                    Move::Guest(number, flags) => self.serve(number, flags),
                }
            }
            if self.last.is_some() && self.has_passed_on_all() {
                self.last = None;
            }
        }
    }

    /// Waits until a socket is ready. If `full`, ignores the listeners and waits for at most [`FULL`].
    fn wait(&self, full: bool) -> Vec<Move> {
        let mut fds = vec![PollFd::from_borrowed_fd(self.woken.as_fd(), PollFlags::IN)];
        let mut what = vec![(0, None)];
        if !full && self.open.len() < MOST_CONNECTIONS {
            for (door, listener) in (0_u16..).zip(&self.listeners) {
                fds.push(PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN));
                what.push((door, None));
            }
        }
        for (number, guest) in &self.open {
            // A stream without wanted events is left out, because `poll` would report its hang-up again and again.
            if let Some(wanted) = guest.wanted() {
                fds.push(PollFd::from_borrowed_fd(guest.stream.as_fd(), wanted));
                what.push((0, Some(*number)));
            }
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(FULL.subsec_nanos()) };
        if poll(&mut fds, full.then_some(&pause)).is_err() {
            return Vec::new();
        }
        let mut moves = Vec::new();
        for (place, (fd, (door, guest))) in fds.iter().zip(what).enumerate() {
            let flags = fd.revents();
            match guest {
                _ if flags.is_empty() => {}
                Some(number) => moves.push(Move::Guest(number, flags)),
                None if place == 0 => moves.push(Move::Woken),
                None => moves.push(Move::Knocked(door)),
            }
        }
        moves
    }

    fn hear(&mut self) {
        let mut calls = [0; 1024];
        while matches!((&self.woken).read(&mut calls), Ok(1..)) {}
        let all = std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner));
        for told in all {
            match told {
                Told::Anew => self.open.clear(),
                Told::Last(last) => self.last = Some(last),
                Told::Said(number, said) => {
                    let Some(guest) = self.open.get_mut(&number) else { continue };
                    match said {
                        // The program reads no more. Without [`Said::Taken`], the host's window is used up at some
                        // point.
                        Said::Bytes(_) if guest.deaf => {}
                        Said::Bytes(bytes) => guest.behind.extend(bytes),
                        Said::End => guest.host_ended = true,
                        Said::Gone => (guest.host_ended, guest.gone) = (true, true),
                        Said::Taken(count) => {
                            guest.room =
                                guest.room.saturating_add(usize::try_from(count).unwrap_or(usize::MAX)).min(WINDOW);
                        }
                    }
                    self.serve(number, PollFlags::OUT);
                }
            }
        }
    }

    /// Returns true if no connection has more data to read and no connection is left to accept.
    fn has_passed_on_all(&mut self) -> bool {
        let in_all = (0_u16..).zip(0..self.listeners.len()).all(|(door, _)| self.let_in(door).is_ok());
        in_all && self.open.len() < MOST_CONNECTIONS && self.open.values().all(|guest| guest.guest_ended || guest.gone)
    }

    fn let_in(&mut self, door: u16) -> io::Result<()> {
        let Some(listener) = self.listeners.get(usize::from(door)) else { return Ok(()) };
        while self.open.len() < MOST_CONNECTIONS {
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
            self.line.send(&Word::Knock(number, door));
            self.open.insert(number, Guest::new(stream));
        }
        Ok(())
    }

    fn serve(&mut self, number: u32, flags: PollFlags) {
        let Some(guest) = self.open.get_mut(&number) else { return };
        let line = &self.line;
        let say = |said: Said| line.send(&Word::Way(number, said));
        // Writing also detects a hang-up. Data that the program sent before the hang-up is still read below.
        if flags.intersects(PollFlags::OUT | PollFlags::HUP | PollFlags::ERR) && guest.pass_on(&say).is_err() {
            guest.deaf = true;
            guest.behind.clear();
        }
        let broken = flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && guest.listen(&say).is_err();
        if broken && !guest.guest_ended {
            // All data before the failure has been read.
            guest.guest_ended = true;
            say(Said::End);
        }
        let left = broken || (guest.deaf && guest.guest_ended);
        if left {
            say(Said::Gone);
        }
        let over = guest.behind.is_empty() && (guest.gone || (guest.host_ended && guest.guest_ended));
        if left || over {
            self.open.remove(&number);
        }
    }
}

impl Guest {
    fn new(stream: TcpStream) -> Self {
        let (behind, room) = (VecDeque::new(), WINDOW);
        Self { stream, behind, room, guest_ended: false, deaf: false, host_ended: false, gone: false }
    }

    fn wanted(&self) -> Option<PollFlags> {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, !self.guest_ended && !self.gone && self.room > 0);
        wanted.set(PollFlags::OUT, !self.behind.is_empty());
        (!wanted.is_empty()).then_some(wanted)
    }

    /// Writes the pending bytes to the program.
    fn pass_on(&mut self, say: &impl Fn(Said)) -> io::Result<()> {
        while !self.behind.is_empty() {
            let (piece, _) = self.behind.as_slices();
            match self.stream.write(piece) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.behind.drain(..count);
                    say(Said::Taken(u32::try_from(count).unwrap_or(u32::MAX)));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.host_ended && !self.gone {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Reads from the program, at most as many bytes as the host can accept.
    fn listen(&mut self, say: &impl Fn(Said)) -> io::Result<()> {
        if self.guest_ended || self.gone || self.room == 0 {
            return Ok(());
        }
        let mut piece = vec![0; self.room.min(MOST_PIECE)];
        match self.stream.read(&mut piece) {
            Ok(0) => {
                self.guest_ended = true;
                say(Said::End);
            }
            Ok(count) => {
                piece.truncate(count);
                self.room -= count;
                say(Said::Bytes(piece));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

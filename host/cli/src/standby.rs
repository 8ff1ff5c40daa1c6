//! Standby process that can run the same command in a container, or with code that is not compiled yet.
//!
//! A process that has confined itself for a WebAssembly guest cannot connect to an engine or load code, and must not be
//! able to: an open socket would bypass the confinement. If a second run is possible, a second process with the same
//! arguments is therefore started before the first one confines itself. It is a small program that executes codebox when it receives
//! a byte, and exits with the first process if it receives none. It then reads a [handover](crate::handover) with the
//! output and input so far, and runs the same command, which is admitted again. The confined process can cause it only
//! to run that command in a container, or in WebAssembly in a process that confines itself as well.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{CancelToken, Handover};

use codebox_runner::StandbyProcess;

use crate::handover;

/// Environment variable of a standby process, with the descriptors of its two pipes.
pub const STANDBY_VARIABLE: &str = "CODEBOX_STANDBY";

/// Start of a standby process.
pub struct StandbyLauncher {
    /// Command of a small program that waits for a byte on a descriptor and then executes another program:
    /// `PROGRAM wait DESCRIPTOR OTHER NAME ARGUMENTS...`.
    pub command: Command,
    /// The program to execute: codebox with all of its parts.
    pub program: PathBuf,
}

/// Byte that wakes the standby process.
const WAKE: u8 = b'w';

/// Byte that reports that the standby process is about to run the job.
const STARTED: u8 = b'g';

/// Maximum size of the trace events of a standby process.
const MAX_EVENTS_SIZE: u32 = 16 << 20;

/// The standby process, as seen by the first process.
pub(crate) struct Standby {
    requests: io::PipeWriter,
    replies: io::PipeReader,
    /// Receives the trace events of the standby process.
    events: Arc<Mutex<Vec<u8>>>,
    _child: Child,
}

impl Standby {
    /// Starts the standby process with the arguments and the environment of this process. The trace events of the process
    /// are stored in `events` when it has run the job.
    #[cfg(unix)]
    pub(crate) fn start(
        StandbyLauncher { command: mut launcher, program }: StandbyLauncher,
        args: &[OsString],
        events: Arc<Mutex<Vec<u8>>>,
    ) -> io::Result<Self> {
        let (child_in, requests) = io::pipe()?;
        let (replies, child_out) = io::pipe()?;
        for theirs in [rustix::fd::AsFd::as_fd(&child_in), rustix::fd::AsFd::as_fd(&child_out)] {
            rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty())?;
        }
        launcher.arg("wait").arg(child_in.as_raw_fd().to_string()).arg(program);
        let descriptors = format!("{} {}", child_in.as_raw_fd(), child_out.as_raw_fd());
        let child = launcher.args(args).env(STANDBY_VARIABLE, descriptors).spawn()?;
        Ok(Self { requests, replies, events, _child: child })
    }

    /// Fails: on other systems a process cannot inherit single descriptors.
    #[cfg(not(unix))]
    pub(crate) fn start(
        _standby_launcher: Command,
        _args: &[OsString],
        _events: Arc<Mutex<Vec<u8>>>,
    ) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl StandbyProcess for Standby {
    fn take_over(
        self: Box<Self>,
        handover: &Handover,
        cancel: &CancelToken,
        taken: &mut dyn FnMut(),
    ) -> Result<Option<u8>, String> {
        let Self { mut requests, mut replies, events, _child } = *self;
        let lost = |error: io::Error| format!("the standby process has exited: {error}");
        requests.write_all(&[WAKE]).and_then(|()| handover::write(handover, &mut requests)).map_err(lost)?;
        // Closing this pipe ends the run in the standby process, also when this process is killed.
        let _relay = cancel.on_cancel(move || drop(requests));
        let mut reply = [0];
        replies.read_exact(&mut reply).map_err(lost)?;
        if reply != [STARTED] {
            let mut why = String::new();
            let _ = replies.take(64 << 10).read_to_string(&mut why);
            return Err(why);
        }
        taken();
        let mut status = [0];
        if replies.read_exact(&mut status).is_err() {
            return Ok(None);
        }
        // The exit status stands even if the events are lost.
        if let Ok(received) = read_events(&mut replies) {
            *events.lock().unwrap_or_else(PoisonError::into_inner) = received;
        }
        Ok(Some(status[0]))
    }
}

/// Writes trace events with their length before them.
fn write_events(events: &[u8], to: &mut impl Write) -> io::Result<()> {
    let length = u32::try_from(events.len()).ok().filter(|length| *length <= MAX_EVENTS_SIZE);
    // Too many events are left out.
    let Some(length) = length else { return to.write_all(&0_u32.to_le_bytes()) };
    to.write_all(&length.to_le_bytes())?;
    to.write_all(events)
}

/// Reads what [`write_events`] wrote. The end of the pipe is no sign, because other processes may hold it open.
fn read_events(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_EVENTS_SIZE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut events = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut events)?;
    Ok(events)
}

/// This process as a standby process, with its pipes to the first process.
pub(crate) struct StandbyConnection {
    requests: File,
    replies: File,
}

impl StandbyConnection {
    /// Returns the pipes to the first process; `None` if a user started this process.
    pub(crate) fn find() -> Option<Self> {
        let text = std::env::var(STANDBY_VARIABLE).ok()?;
        let (requests, replies) = text.split_once(' ')?;
        let number = |text: &str| text.parse::<u16>().ok();
        let requests = File::open(format!("/dev/fd/{}", number(requests)?)).ok()?;
        let replies = File::options().write(true).open(format!("/dev/fd/{}", number(replies)?)).ok()?;
        Some(Self { requests, replies })
    }

    /// Waits for the handover; `None` if the first process did not need this one.
    pub(crate) fn wait(&mut self) -> Option<Handover> {
        handover::read(&mut self.requests)
    }

    /// Cancels the token `cancel` when the first process cancels the run or exits, until the returned value is stopped.
    #[cfg(unix)]
    pub(crate) fn watch_until_stopped(&self, cancel: CancelToken) -> io::Result<StoppableWatch> {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut requests = self.requests.try_clone()?;
        let (stopped, stop) = io::pipe()?;
        let watch = move || {
            loop {
                let mut events = [PollFd::new(&requests, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
                match poll(&mut events, None) {
                    Ok(_) if !events[1].revents().is_empty() => return,
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
                let is_readable = !events[0].revents().is_empty();
                if is_readable && !matches!(requests.read(&mut [0; 64]), Ok(1..)) {
                    return cancel.cancel();
                }
            }
        };
        let thread = std::thread::Builder::new().name("codebox-standby".into()).spawn(watch)?;
        Ok(StoppableWatch { stop, thread })
    }

    /// Cancels the token `cancel` when the first process cancels the run or exits.
    pub(crate) fn watch(&self, cancel: CancelToken) -> io::Result<()> {
        let mut requests = self.requests.try_clone()?;
        let watch = move || {
            let _ = io::copy(&mut requests, &mut io::sink());
            cancel.cancel();
        };
        std::thread::Builder::new().name("codebox-standby".into()).spawn(watch).map(drop)
    }

    /// Reports that the job is about to run in this process.
    pub(crate) fn report_started(&mut self) {
        let _ = self.replies.write_all(&[STARTED]);
    }

    /// Reports the reason that the job does not run in this process.
    pub(crate) fn report_refusal(&mut self, why: &str) {
        let _ = self.replies.write_all(b"n").and_then(|()| self.replies.write_all(why.as_bytes()));
    }

    /// Reports the exit status, and passes on the trace events.
    pub(crate) fn report_exit(&mut self, status: u8, events: &[u8]) {
        let _ = self.replies.write_all(&[status]).and_then(|()| write_events(events, &mut self.replies));
    }
}

/// Thread that watches the first process. A process that confines itself must have no other thread.
#[cfg(unix)]
pub(crate) struct StoppableWatch {
    stop: io::PipeWriter,
    thread: std::thread::JoinHandle<()>,
}

#[cfg(unix)]
impl StoppableWatch {
    /// Ends the thread, and returns when it has ended.
    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_pass_through_a_pipe_that_stays_open() {
        for events in [&b"[]"[..], b""] {
            let mut wire = Vec::new();
            write_events(events, &mut wire).expect("a vector takes all");
            wire.extend(b"more");
            assert_eq!(read_events(&mut wire.as_slice()).expect("it is complete"), events);
        }
        let mut wire = Vec::new();
        write_events(&vec![0; (16 << 20) + 1], &mut wire).expect("a vector takes all");
        assert_eq!(read_events(&mut wire.as_slice()).expect("it is complete"), b"");
        assert!(read_events(&mut &[0xff_u8; 8][..]).is_err() && read_events(&mut &b"\x01"[..]).is_err());
    }
}

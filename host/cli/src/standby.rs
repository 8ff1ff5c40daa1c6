//! Standby process that can run the same command in a container.
//!
//! A process that has confined itself for a WebAssembly guest cannot connect to an engine, and must not be able to: an
//! open socket would bypass the confinement. If escalation is possible, a second process with the same arguments is
//! therefore started before the first one confines itself. It is a small program that executes codebox when it receives
//! a byte, and exits with the first process if it receives none. It then reads a [handover](crate::handover) with the
//! output and input so far, and runs the same command, which is admitted again. The confined process can cause it only
//! to run that command in a container.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
#[cfg(unix)]
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command};

use codebox_core::{CancelToken, Handover};

use codebox_runner::StandbyProcess;

use crate::handover;

/// Environment variable of a standby process, with the descriptors of its two pipes.
pub const STANDBY_VARIABLE: &str = "CODEBOX_STANDBY";

/// Byte that wakes the standby process.
const WAKE: u8 = b'w';

/// Byte that reports that the standby process is about to run the job.
const STARTED: u8 = b'g';

/// The standby process, as seen by the first process.
pub(crate) struct Standby {
    requests: io::PipeWriter,
    replies: io::PipeReader,
    _child: Child,
}

impl Standby {
    /// Starts the standby process with the arguments and the environment of this process. `standby_launcher` waits and then
    /// executes codebox.
    #[cfg(unix)]
    pub(crate) fn start(mut standby_launcher: Command) -> io::Result<Self> {
        let (child_in, requests) = io::pipe()?;
        let (replies, child_out) = io::pipe()?;
        for theirs in [rustix::fd::AsFd::as_fd(&child_in), rustix::fd::AsFd::as_fd(&child_out)] {
            rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty())?;
        }
        standby_launcher.arg("wait").arg(child_in.as_raw_fd().to_string()).arg(std::env::current_exe()?);
        let descriptors = format!("{} {}", child_in.as_raw_fd(), child_out.as_raw_fd());
        let child = standby_launcher.args(std::env::args_os()).env(STANDBY_VARIABLE, descriptors).spawn()?;
        Ok(Self { requests, replies, _child: child })
    }

    /// Fails: on other systems a process cannot inherit single descriptors.
    #[cfg(not(unix))]
    pub(crate) fn start(_standby_launcher: Command) -> io::Result<Self> {
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
        let Self { mut requests, mut replies, _child } = *self;
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
        Ok(replies.read_exact(&mut status).ok().map(|()| status[0]))
    }
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

    /// Reports the exit status.
    pub(crate) fn report_exit(&mut self, status: u8) {
        let _ = self.replies.write_all(&[status]);
    }
}

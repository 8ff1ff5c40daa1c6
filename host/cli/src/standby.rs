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
const GO: u8 = b'g';

/// The standby process, as seen by the first process.
pub(crate) struct Standby {
    orders: io::PipeWriter,
    answers: io::PipeReader,
    _child: Child,
}

impl Standby {
    /// Starts the standby process with the arguments and the environment of this process. `waiter` waits and then
    /// executes codebox.
    pub(crate) fn start(mut waiter: Command) -> io::Result<Self> {
        let (theirs_in, orders) = io::pipe()?;
        let (answers, theirs_out) = io::pipe()?;
        for theirs in [rustix::fd::AsFd::as_fd(&theirs_in), rustix::fd::AsFd::as_fd(&theirs_out)] {
            rustix::io::fcntl_setfd(theirs, rustix::io::FdFlags::empty())?;
        }
        waiter.arg("wait").arg(theirs_in.as_raw_fd().to_string()).arg(std::env::current_exe()?);
        let descriptors = format!("{} {}", theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        let child = waiter.args(std::env::args_os()).env(STANDBY_VARIABLE, descriptors).spawn()?;
        Ok(Self { orders, answers, _child: child })
    }
}

impl StandbyProcess for Standby {
    fn take_over(
        self: Box<Self>,
        handover: &Handover,
        cancel: &CancelToken,
        taken: &mut dyn FnMut(),
    ) -> Result<Option<u8>, String> {
        let Self { mut orders, mut answers, _child } = *self;
        let lost = |error: io::Error| format!("the standby process has exited: {error}");
        orders.write_all(&[WAKE]).and_then(|()| handover::write(handover, &mut orders)).map_err(lost)?;
        // Closing this pipe ends the run in the standby process, also when this process is killed.
        let _relay = cancel.on_cancel(move || drop(orders));
        let mut word = [0];
        answers.read_exact(&mut word).map_err(lost)?;
        if word != [GO] {
            let mut why = String::new();
            let _ = answers.take(64 << 10).read_to_string(&mut why);
            return Err(why);
        }
        taken();
        let mut status = [0];
        Ok(answers.read_exact(&mut status).ok().map(|()| status[0]))
    }
}

/// This process as a standby process, with its pipes to the first process.
pub(crate) struct StandbyConnection {
    orders: File,
    answers: File,
}

impl StandbyConnection {
    /// Returns the pipes to the first process; `None` if a user started this process.
    pub(crate) fn find() -> Option<Self> {
        let text = std::env::var(STANDBY_VARIABLE).ok()?;
        let (orders, answers) = text.split_once(' ')?;
        let number = |text: &str| text.parse::<u16>().ok();
        let orders = File::open(format!("/dev/fd/{}", number(orders)?)).ok()?;
        let answers = File::options().write(true).open(format!("/dev/fd/{}", number(answers)?)).ok()?;
        Some(Self { orders, answers })
    }

    /// Waits for the handover; `None` if the first process did not need this one.
    pub(crate) fn wait(&mut self) -> Option<Handover> {
        handover::read(&mut self.orders)
    }

    /// Cancels the token `cancel` when the first process cancels the run or exits.
    pub(crate) fn watch(&self, cancel: CancelToken) -> io::Result<()> {
        let mut orders = self.orders.try_clone()?;
        let watch = move || {
            let _ = io::copy(&mut orders, &mut io::sink());
            cancel.cancel();
        };
        std::thread::Builder::new().name("codebox-standby".into()).spawn(watch).map(drop)
    }

    /// Reports that the job is about to run in this process.
    pub(crate) fn report_started(&mut self) {
        let _ = self.answers.write_all(&[GO]);
    }

    /// Reports the reason that the job does not run in this process.
    pub(crate) fn report_refusal(&mut self, why: &str) {
        let _ = self.answers.write_all(b"n").and_then(|()| self.answers.write_all(why.as_bytes()));
    }

    /// Reports the exit status.
    pub(crate) fn report_exit(&mut self, status: u8) {
        let _ = self.answers.write_all(&[status]);
    }
}

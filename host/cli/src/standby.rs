//! A second process that waits to run the same command in a container.
//!
//! A process that has confined itself for a WebAssembly guest can reach no engine any more, and must not: a socket held
//! open across the walls would be a way around them. So where escalation is possible, a process with the same arguments is
//! made ready before the walls go up. What waits is a small program, which becomes codebox when something comes, and ends
//! with the first process if nothing does. What comes is a
//! [handover](crate::handover): what was printed and read so far. What it then does is the same command, admitted
//! again; all that the confined process can make it do is run it in a container.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command};

use codebox_core::CancelToken;

use crate::handover::Handover;

/// Tells a process that it stands by: the descriptors of its two pipes.
pub const STANDBY_VARIABLE: &str = "CODEBOX_STANDBY";

/// Wakes who waits.
const WAKE: u8 = b'w';

/// Says that the job is about to run there.
const GO: u8 = b'g';

/// The waiting process, as the first one sees it.
pub(crate) struct Standby {
    orders: io::PipeWriter,
    answers: io::PipeReader,
    _child: Child,
}

impl Standby {
    /// Starts it, with the arguments and the environment of this process: `waiter` waits, and becomes it.
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

    /// Hands the command over. Once it runs there, `forget` is called, and throwing `cancel` cancels it there.
    ///
    /// # Errors
    /// Why it does not run there.
    pub(crate) fn take_over(
        self,
        handover: &Handover,
        cancel: &CancelToken,
        forget: impl FnOnce(),
    ) -> Result<Ended, String> {
        let Self { mut orders, mut answers, _child } = self;
        let lost = |error: io::Error| format!("the process that was to do it is gone: {error}");
        orders.write_all(&[WAKE]).and_then(|()| handover.write(&mut orders)).map_err(lost)?;
        // The end of the orders is what ends it there, also where this process is killed.
        let _relay = cancel.on_cancel(move || drop(orders));
        let mut word = [0];
        answers.read_exact(&mut word).map_err(lost)?;
        if word != [GO] {
            let mut why = String::new();
            let _ = answers.take(64 << 10).read_to_string(&mut why);
            return Err(why);
        }
        forget();
        let mut status = [0];
        Ok(match answers.read_exact(&mut status) {
            Ok(()) => Ended::With(status[0]),
            Err(_) => Ended::Lost,
        })
    }
}

/// How a command ended that was handed over.
pub(crate) enum Ended {
    /// With this status, having told of everything.
    With(u8),
    /// Nobody knows: its process is gone.
    Lost,
}

/// This process, if it is one that stands by.
pub(crate) struct StandingBy {
    orders: File,
    answers: File,
}

impl StandingBy {
    /// Nothing in a process that a user started.
    pub(crate) fn find() -> Option<Self> {
        let text = std::env::var(STANDBY_VARIABLE).ok()?;
        let (orders, answers) = text.split_once(' ')?;
        let number = |text: &str| text.parse::<u16>().ok();
        let orders = File::open(format!("/dev/fd/{}", number(orders)?)).ok()?;
        let answers = File::options().write(true).open(format!("/dev/fd/{}", number(answers)?)).ok()?;
        Some(Self { orders, answers })
    }

    /// Waits for the handover; nothing comes if the first process got by.
    pub(crate) fn wait(&mut self) -> Option<Handover> {
        Handover::read(&mut self.orders)
    }

    /// Throws `cancel` when the first process does, or is gone.
    pub(crate) fn watch(&self, cancel: CancelToken) -> io::Result<()> {
        let mut orders = self.orders.try_clone()?;
        let watch = move || {
            let _ = io::copy(&mut orders, &mut io::sink());
            cancel.cancel();
        };
        std::thread::Builder::new().name("codebox-standby".into()).spawn(watch).map(drop)
    }

    /// Says that the job is about to run here.
    pub(crate) fn goes(&mut self) {
        let _ = self.answers.write_all(&[GO]);
    }

    /// Says why it does not.
    pub(crate) fn refuses(&mut self, why: &str) {
        let _ = self.answers.write_all(b"n").and_then(|()| self.answers.write_all(why.as_bytes()));
    }

    /// Says how it ended.
    pub(crate) fn ended(&mut self, status: u8) {
        let _ = self.answers.write_all(&[status]);
    }
}

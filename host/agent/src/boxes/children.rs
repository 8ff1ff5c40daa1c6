//! The processes of a box: their start and their end.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::process::{Child, Command};

use codebox_agent::Status;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, chdir, fchdir, kill_process, kill_process_group, wait};
use tokio::sync::oneshot;

use crate::oom_score::OomScore;

/// Processes that this agent has started, and that have not ended.
pub(super) struct Children {
    waiting: RefCell<HashMap<Pid, oneshot::Sender<Status>>>,
    oom_score: OomScore,
}

/// Origin of a process of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A command that this agent has started.
    Command,
    /// A program that the engine has started in the container: its first process.
    Engine(Pid),
    /// A process whose first process has ended.
    Detached,
}

/// A running process. Its group has the same number.
pub(super) struct Process {
    pub pid: Pid,
    pub exit: oneshot::Receiver<Status>,
    pub child: Child,
}

impl Children {
    pub(super) fn new(oom_score: OomScore) -> Self {
        Self { waiting: RefCell::default(), oom_score }
    }

    /// Starts a process in a directory. One thread starts and reaps all processes, so the end of this one cannot be missed.
    ///
    /// This process is in the directory meanwhile, because a start with a directory of its own would copy the memory of this
    /// process. No other part of it uses a relative path.
    pub(super) fn spawn(&self, command: &mut Command, dir: impl AsFd) -> io::Result<Process> {
        fchdir(dir)?;
        let child = self.oom_score.while_raised(|| command.spawn());
        let _ = chdir("/");
        let child = child?;
        let pid = Pid::from_child(&child);
        let (sender, exit) = oneshot::channel();
        self.waiting.borrow_mut().insert(pid, sender);
        Ok(Process { pid, exit, child })
    }

    /// Reaps all processes that have ended, including those that were left to this process.
    pub(super) fn reap(&self) {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(waiting) = self.waiting.borrow_mut().remove(&pid) {
                let _ = waiting.send(to_status(status));
            }
        }
    }

    /// Returns the origin of a process by its ancestors.
    pub(super) fn origin(&self, mut pid: Pid) -> Origin {
        // An ancestor can end at any time, and its number can be assigned again. The bound ends a cycle.
        for _ in 0..1000 {
            if self.waiting.borrow().contains_key(&pid) {
                return Origin::Command;
            }
            match parent(pid) {
                Some(0) => return Origin::Engine(pid),
                Some(number @ 2..) => match Pid::from_raw(number) {
                    Some(parent) => pid = parent,
                    None => return Origin::Detached,
                },
                _ => return Origin::Detached,
            }
        }
        Origin::Detached
    }
}

/// Returns the parent of a process: 0 if it is outside of the container.
fn parent(pid: Pid) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name of the program, in parentheses, can contain any character.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Sends a signal to the group of a process, or to the process itself if it has no group yet. A process cannot evade its end by
/// leaving its group.
pub(super) fn signal_group(pid: Pid, signal: Signal) {
    let sent = kill_process_group(pid, signal);
    if sent.is_err() || signal == Signal::KILL {
        let _ = kill_process(pid, signal);
    }
}

fn to_status(status: WaitStatus) -> Status {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Status::Exited(code),
        (None, signal) => Status::Signalled(signal.unwrap_or(0)),
    }
}

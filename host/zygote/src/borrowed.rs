//! A run in a worker of the host process on behalf of a program that has streams, threads and a directory of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::client::{offer, receive, retry};
use crate::place::Place;
use crate::wire::{Job, Reply};

/// Command line for a worker, with its environment.
#[derive(Debug)]
pub struct WorkerCommand<'a> {
    /// The command line, with the program's name.
    pub args: Vec<OsString>,
    /// The environment.
    pub env: Vec<(OsString, OsString)>,
    /// Permissions that files of the worker do not get.
    pub umask: u32,
    /// Standard input, output and error.
    pub streams: [BorrowedFd<'a>; 3],
}

/// A worker that runs a command line. Dropping the value ends it.
#[derive(Debug)]
pub struct BorrowedWorker(OwnedFd);

/// End of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerEnd {
    /// It exited with this status.
    Exited(u8),
    /// It was ended by this signal.
    Killed(u8),
    /// The host process ended, and the worker with it.
    Lost,
}

/// Passes a command line to a worker of the host process. `None` if there is no host process, or if it refuses.
/// `program` is the path of the complete program. The worker's working directory is the root.
///
/// Waits for the answer of the host process for at most a second.
///
/// # Errors
/// The error of the connection. The command line has not started.
pub fn borrow_worker(place: &Place, program: &Path, command: WorkerCommand<'_>) -> io::Result<Option<BorrowedWorker>> {
    let WorkerCommand { args, env, umask, streams } = command;
    let job = Job { args, env, umask, ignored_signals: 0 };
    Ok(offer(place, program, &job, streams, Path::new("/"))?.map(BorrowedWorker))
}

impl BorrowedWorker {
    /// Waits for the end of the worker, for at most this time.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<WorkerEnd> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        match retry(|| poll(&mut ready, timeout.as_ref())) {
            Ok(0) => None,
            Ok(_) => Some(match receive(&self.0) {
                Ok(Some(Reply::Exited(status))) => WorkerEnd::Exited(status),
                Ok(Some(Reply::Killed(signal))) => WorkerEnd::Killed(signal),
                _ => WorkerEnd::Lost,
            }),
            Err(_) => Some(WorkerEnd::Lost),
        }
    }
}

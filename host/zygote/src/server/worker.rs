//! Workers: processes that the host process forks, each for one run.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Seek as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::client::PASSED;
use crate::sys::{self, Forked};
use crate::wire::{Job, MAX_JOB, RUN_DESCRIPTORS, Reply};

/// Maximum time for the end of a worker that has no run.
const DISCARD_LIMIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A worker, seen from the host process.
pub(super) struct Worker {
    pid: Pid,
    /// The descriptor of the process, which is readable when the process has ended.
    pub process: OwnedFd,
    channel: OwnedFd,
    /// The pipe to which the process writes its exit status when it has done everything but end.
    pub status: OwnedFd,
}

/// The connections of a worker to the host process.
pub(super) struct Channel {
    /// The socket over which the worker receives its run.
    pub run: OwnedFd,
    /// The pipe for the exit status.
    pub status: OwnedFd,
}

/// Ends a worker with the exit status of its run. The status is reported before, because the system takes a while to release
/// the memory of a process, which its client need not wait for. The files of the run are released first: they are free
/// when the client ends.
///
/// The run has flushed its output. Flushing it here would wait for a thread that writes to a stalled reader.
pub(super) fn end(report: &OwnedFd, status: u8) -> ! {
    let _ = rustix::process::chdir("/");
    sys::close_files();
    // Without a report, the host process waits for the end of this one.
    let _ = rustix::io::write(report, &[status]);
    std::process::exit(i32::from(status))
}

/// A worker after its fork, seen from both processes.
pub(super) enum ForkedWorker {
    Parent(Worker),
    Child(Channel),
}

impl Worker {
    pub(super) fn fork() -> io::Result<ForkedWorker> {
        let (channel, other) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (status, write_status) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let host = rustix::process::getpid();
        match sys::fork()? {
            Forked::Parent(pid) => match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
                Ok(process) => Ok(ForkedWorker::Parent(Self { pid, process, channel, status })),
                Err(error) => {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                    let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
                    Err(error.into())
                }
            },
            Forked::Child => {
                drop((channel, status));
                if start(host).is_err() {
                    // The host process forks another one.
                    std::process::exit(1);
                }
                Ok(ForkedWorker::Child(Channel { run: other, status: write_status }))
            }
        }
    }

    /// Returns true unless the process has ended.
    pub(super) fn is_alive(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(rustix::process::waitid(WaitId::PidFd(self.process.as_fd()), options), Ok(None))
    }

    /// Passes a run to the process.
    pub(super) fn pass(&self, descriptors: &[OwnedFd]) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.channel, &[IoSlice::new(b"r")], &mut ancillary, flags)?;
        Ok(())
    }

    /// Passes a signal on. Signals of job control go to all processes of the run.
    pub(super) fn signal(&self, signal: i32) {
        // A process that has ended is reported soon.
        let _ = match signal {
            libc::SIGINT => rustix::process::pidfd_send_signal(&self.process, Signal::INT),
            libc::SIGTERM => rustix::process::pidfd_send_signal(&self.process, Signal::TERM),
            libc::SIGHUP => rustix::process::pidfd_send_signal(&self.process, Signal::HUP),
            libc::SIGSTOP => rustix::process::kill_process_group(self.pid, Signal::STOP),
            libc::SIGCONT => rustix::process::kill_process_group(self.pid, Signal::CONT),
            _ => Ok(()),
        };
    }

    /// Ends the process, and continues the other processes of its run, which notice the end.
    pub(super) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
        let _ = rustix::process::kill_process_group(self.pid, Signal::CONT);
    }

    /// Ends a process that has no run. It removes its directories first, for which it has a limited time: it is killed when
    /// the host process ends.
    pub(super) fn discard(self) {
        let Self { process, channel, .. } = self;
        drop(channel);
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut ended, Some(&DISCARD_LIMIT)));
        let _ = rustix::process::pidfd_send_signal(&process, Signal::KILL);
        let _ = rustix::process::waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
    }

    /// Returns the exit status that the process reported; `None` if it ended without a report.
    pub(super) fn reported(&self) -> Option<u8> {
        let mut status = [0];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.status, &mut status));
        matches!(read, Ok(1)).then_some(status[0])
    }

    /// Returns how a process that has ended did so.
    pub(super) fn reap(&self) -> Option<Reply> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = rustix::process::waitid(WaitId::PidFd(self.process.as_fd()), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Some(Reply::Exited(status as u8)),
            (None, signal) => signal.map(|signal| Reply::Killed(signal as u8)),
        }
    }
}

/// Sets this process up as a worker.
fn start(host: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(host) {
        return Err(io::Error::other("the host process has ended"));
    }
    // A stop reaches all processes of a run.
    rustix::process::setpgid(None, None)?;
    // Workers would otherwise draw the same numbers as each other.
    rand::rng().reseed().map_err(io::Error::other)
}

/// Receives a run in a worker, takes over its descriptors, directory, environment and signals, and returns its arguments.
/// `None` if the host process has no run for this worker.
pub(super) fn receive(channel: OwnedFd) -> io::Result<Option<Vec<OsString>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(&channel, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            descriptors.extend(passed);
        }
    }
    let descriptors: [OwnedFd; RUN_DESCRIPTORS] =
        descriptors.try_into().map_err(|_| io::Error::other("the run has not all of its descriptors"))?;
    take_over(descriptors).map(Some)
}

fn take_over([stdin, stdout, stderr, dir, job]: [OwnedFd; RUN_DESCRIPTORS]) -> io::Result<Vec<OsString>> {
    // The standard error comes first, because errors are written to it.
    rustix::stdio::dup2_stderr(&stderr)?;
    rustix::stdio::dup2_stdout(&stdout)?;
    rustix::stdio::dup2_stdin(&stdin)?;
    rustix::process::fchdir(&dir)?;
    let mut file = File::from(job);
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_JOB).read_to_end(&mut bytes)?;
    let job = Job::decode(&bytes).ok_or_else(|| io::Error::other("the run is malformed"))?;
    rustix::process::umask(Mode::from_raw_mode(job.umask));
    sys::reset_signals(&PASSED, job.ignored_signals);
    sys::replace_environment(job.env)?;
    Ok(job.args)
}

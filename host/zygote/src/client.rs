//! A run of the command line in a worker of the host process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};

use crate::place::{OpenPlace, Place};
use crate::program::ProgramId;
use crate::sys;
use crate::wire::{Hello, Job, MAX_PACKET, RUN_DESCRIPTORS, Reply, RequestKind, TOKEN_SIZE};

/// Maximum time until the host process accepts or refuses a run. After it, the client runs the job itself.
const ACCEPT_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Descriptor of the host process from which clients read the secret.
pub(crate) const TOKEN_DESCRIPTOR: i32 = 3;

/// Signals that a client passes on to the worker.
pub(crate) const PASSED: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Result of offering a run to the host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// The run has not started. The caller runs it.
    No,
    /// The run ended with this exit status.
    Exited(u8),
    /// The host process ended during the run. The worker ends with it.
    Lost,
}

/// Runs a command line in a worker of the host process of this user, with the streams, the working directory, the
/// environment and the signals of this process. `program` is the path of the complete program.
///
/// Standard input must not be a terminal: a process of another session would read it without job control. If the worker
/// is ended by a signal, so is this process.
///
/// Call it before this process has started threads.
#[must_use]
pub fn run(place: &Place, program: &Path, args: &[OsString]) -> Served {
    if rustix::termios::isatty(io::stdin()) {
        return Served::No;
    }
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    // A name that starts with an equals sign cannot be set. It means nothing to codebox.
    let env = std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().contains(&b'='));
    let umask = rustix::process::umask(Mode::empty());
    rustix::process::umask(umask);
    let ignored_signals = sys::ignored(&PASSED);
    let job = Job { args: args.to_vec(), env: env.collect(), umask: umask.bits(), ignored_signals };
    match offer(place, program, &job, streams, Path::new(".")) {
        Ok(Some(connection)) => follow(&connection),
        // The complete program reports errors that are not only those of the connection.
        Ok(None) | Err(_) => Served::No,
    }
}

/// A connection to a host process of this user.
pub(crate) struct Connection {
    pub socket: OwnedFd,
    pub token: [u8; TOKEN_SIZE],
}

/// Connects to the host process; `None` if there is none, or if it belongs to another user.
pub(crate) fn connect(place: &Place) -> io::Result<Option<Connection>> {
    let Some(socket) = place.open()?.as_ref().map(OpenPlace::connect).transpose()?.flatten() else { return Ok(None) };
    let peer = sys::peer(&socket)?;
    if peer.uid != rustix::process::geteuid().as_raw() {
        return Ok(None);
    }
    // Only a process that may inspect the host process can read its secret. This excludes processes that a sandbox
    // confines, which would otherwise reach through the host what they cannot reach themselves.
    let mut token = [0; TOKEN_SIZE];
    let path = format!("/proc/{}/fd/{TOKEN_DESCRIPTOR}", peer.pid);
    let mut file = File::open(path)?;
    file.read_exact(&mut token)?;
    Ok(Some(Connection { socket, token }))
}

/// Offers a run, and returns the connection if the host process accepted it.
pub(crate) fn offer(
    place: &Place,
    program: &Path,
    job: &Job,
    streams: [BorrowedFd<'_>; 3],
    dir: &Path,
) -> io::Result<Option<OwnedFd>> {
    let Some(Connection { socket, token }) = connect(place)? else { return Ok(None) };
    let hello = Hello { kind: RequestKind::Run, program: ProgramId::of_file(program)?, token };
    let dir = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let job = job_file(job)?;
    let [stdin, stdout, stderr] = streams;
    let descriptors = [stdin, stdout, stderr, dir.as_fd(), job.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(RUN_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    rustix::net::sendmsg(&socket, &[IoSlice::new(&hello.encode())], &mut ancillary, SendFlags::NOSIGNAL)?;
    if !has_answered(&socket, &ACCEPT_TIMEOUT)? {
        // From here on the host process cannot accept, because its answer cannot be sent. It may have accepted just before.
        rustix::net::shutdown(&socket, Shutdown::Read)?;
    }
    Ok(matches!(receive(&socket)?, Some(Reply::Accepted)).then_some(socket))
}

/// Waits for a reply or the end of the connection. Returns false if there is neither after this time.
pub(crate) fn has_answered(socket: &OwnedFd, timeout: &Timespec) -> io::Result<bool> {
    let mut ready = [PollFd::new(socket, PollFlags::IN)];
    Ok(retry(|| poll(&mut ready, Some(timeout)))? > 0)
}

/// Receives a reply; `None` if the connection has ended, or the reply is malformed.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Option<Reply>> {
    let mut packet = [0; MAX_PACKET];
    let (length, _) = retry(|| rustix::net::recv(socket, &mut packet[..], RecvFlags::empty()))?;
    Ok(Reply::decode(&packet[..length]))
}

pub(crate) fn retry<T>(call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    Ok(rustix::io::retry_on_intr(call)?)
}

/// Writes the job into memory that only the worker reads.
fn job_file(job: &Job) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("codebox-job", MemfdFlags::CLOEXEC)?);
    file.write_all(&job.encode())?;
    Ok(file)
}

/// Passes signals on to the worker until it ends.
fn follow(socket: &OwnedFd) -> Served {
    let mut signals = [&PASSED[..], &[libc::SIGTSTP]].concat();
    let ignored = sys::ignored(&signals);
    signals.retain(|signal| ignored & sys::bit(*signal) == 0);
    // Without the descriptor, a signal ends this process, and with it the run.
    let signals = sys::read_signals(&signals).ok();
    loop {
        let mut ready = vec![PollFd::new(socket, PollFlags::IN)];
        ready.extend(signals.as_ref().map(|signals| PollFd::new(signals, PollFlags::IN)));
        if retry(|| poll(&mut ready, None)).is_err() {
            return Served::Lost;
        }
        if ready.get(1).is_some_and(|signals| !signals.revents().is_empty()) {
            signals.iter().for_each(|signals| pass_signals(signals, socket));
            continue;
        }
        return match receive(socket) {
            Ok(Some(Reply::Exited(status))) => Served::Exited(status),
            Ok(Some(Reply::Killed(signal))) => {
                sys::end_by(i32::from(signal));
                Served::Exited(128_u8.saturating_add(signal))
            }
            _ => Served::Lost,
        };
    }
}

/// Passes the signals that have arrived on to the worker. A stop stops this process as well, and continues the worker when
/// this process continues.
fn pass_signals(signals: &impl AsFd, socket: &OwnedFd) {
    let mut record = [0; sys::SIGNAL_RECORD];
    while retry(|| rustix::io::read(signals, &mut record)).is_ok_and(|length| length == record.len()) {
        // If the host process is gone, the next receive reports it.
        let pass = |signal: i32| drop(retry(|| rustix::net::send(socket, &[signal as u8], SendFlags::NOSIGNAL)));
        match sys::signal_of(&record) {
            libc::SIGTSTP => {
                pass(libc::SIGSTOP);
                // It has no effect in a process that no shell could continue.
                sys::stop();
                pass(libc::SIGCONT);
            }
            signal => pass(signal),
        }
    }
}

//! System calls that have no safe interface: forking, inherited descriptors, the environment and signals.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::process::Pid;

/// A process after a fork.
pub(crate) enum Forked {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have one thread only.
pub(crate) fn fork() -> io::Result<Forked> {
    if thread_count()? != 1 {
        return Err(io::Error::other("a process with several threads cannot be forked"));
    }
    // SAFETY: this process has no other thread, as was just checked, and only this thread could start one. No lock is
    // therefore held by a thread that does not exist in the child, which may run any code.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        pid => Pid::from_raw(pid).map(Forked::Parent).ok_or_else(|| io::Error::other("the child has no number")),
    }
}

fn thread_count() -> io::Result<usize> {
    std::fs::read_dir("/proc/self/task").map(Iterator::count)
}

/// Maximum number of descriptors that [`close_files`] considers.
const MAX_CLOSED: i32 = 256;

/// Closes the standard streams and all descriptors of files and directories that have a name, without regard to what owns
/// them. Call it only immediately before this process ends.
pub(crate) fn close_files() {
    for fd in 0..MAX_CLOSED {
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the place has the type that the call fills, and zeros are a valid value of it.
        let (status, found) = unsafe { (libc::fstat(fd, found.as_mut_ptr()), found.assume_init()) };
        let is_named = matches!(found.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) && found.st_nlink > 0;
        if fd <= libc::STDERR_FILENO || status == 0 && is_named {
            // SAFETY: this thread uses none of them before the process ends. Calls of other threads fail, and open nothing
            // that they would still use.
            unsafe { libc::close(fd) };
        }
    }
}

/// The process at the other end of a socket.
pub(crate) struct Peer {
    /// Zero if the process is not visible to this one.
    pub pid: i32,
    pub uid: u32,
}

/// Returns the process that connected a socket or listens at it.
pub(crate) fn peer(socket: &OwnedFd) -> io::Result<Peer> {
    let mut found = MaybeUninit::<libc::ucred>::zeroed();
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the place has the size that is passed, and zeros are a valid value of its type.
    let (status, found) = unsafe {
        let status = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            found.as_mut_ptr().cast(),
            &raw mut size,
        );
        (status, found.assume_init())
    };
    match status {
        0 => Ok(Peer { pid: found.pid, uid: found.uid }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the I/O priority of a process; zero is this one.
pub(crate) fn io_priority(pid: i32) -> io::Result<libc::c_long> {
    const WHO_PROCESS: libc::c_long = 1;
    // SAFETY: the call only reads its arguments.
    match unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, libc::c_long::from(pid)) } {
        -1 => Err(io::Error::last_os_error()),
        priority => Ok(priority),
    }
}

/// Closes all descriptors except the standard streams.
///
/// # Errors
/// The system's error.
///
/// # Safety
/// No value of this process may own one of them.
pub unsafe fn close_other_descriptors() -> io::Result<()> {
    // SAFETY: the caller guarantees that no value owns a descriptor from 3 on.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Replaces the environment of this process, which must have one thread only.
pub(crate) fn replace_environment(env: Vec<(OsString, OsString)>) -> io::Result<()> {
    if thread_count()? != 1 {
        return Err(io::Error::other("a process with several threads cannot replace its environment"));
    }
    // SAFETY: this process has no other thread that could read the environment meanwhile.
    unsafe {
        if libc::clearenv() != 0 {
            return Err(io::Error::other("the environment cannot be cleared"));
        }
        for (name, value) in env {
            // Programs find the first variable of a name.
            if std::env::var_os(&name).is_none() {
                std::env::set_var(name, value);
            }
        }
    }
    Ok(())
}

/// Returns the bit of a signal in a mask.
pub(crate) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns those of the given signals that this process ignores, as a bit mask.
pub(crate) fn ignored(signals: &[i32]) -> u64 {
    let is_ignored = |signal: &i32| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the call only writes the current action to a valid place, and zeros are a valid action.
        let action = unsafe {
            libc::sigaction(*signal, std::ptr::null(), action.as_mut_ptr());
            action.assume_init()
        };
        action.sa_sigaction == libc::SIG_IGN
    };
    signals.iter().copied().filter(is_ignored).map(bit).sum()
}

/// Restores the default action of the signals that this process ignores, and unblocks all. `SIGPIPE` is excluded: programs
/// in Rust ignore it.
pub(crate) fn stop_ignoring_signals() {
    let all: Vec<i32> = (1..=64).filter(|signal| *signal != libc::SIGPIPE).collect();
    let ignored = ignored(&all);
    for &signal in all.iter().filter(|signal| ignored & bit(**signal) != 0) {
        // SAFETY: the action is not a function.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock(&all);
}

/// Sets the signals of this process as a program that is started finds them: unblocked, and with the default action or
/// ignored.
pub(crate) fn reset_signals(signals: &[i32], ignored: u64) {
    for &signal in signals {
        let action = if ignored & bit(signal) == 0 { libc::SIG_DFL } else { libc::SIG_IGN };
        // SAFETY: neither action is a function.
        unsafe { libc::signal(signal, action) };
    }
    unblock(signals);
}

/// Blocks signals, and returns a descriptor from which they can be read instead.
pub(crate) fn read_signals(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals);
    // SAFETY: the set is initialised, and the call returns a new descriptor that nothing else owns.
    unsafe {
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        block(&set);
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Size of a record of a signal.
pub(crate) const SIGNAL_RECORD: usize = size_of::<libc::signalfd_siginfo>();

/// Returns the number of the signal of a record. It is the first member.
pub(crate) fn signal_of(record: &[u8; SIGNAL_RECORD]) -> i32 {
    i32::from_ne_bytes([record[0], record[1], record[2], record[3]])
}

fn unblock(signals: &[i32]) {
    let set = set_of(signals);
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
}

/// Ends this process by a signal, as if it had the signal's default action.
pub(crate) fn end_by(signal: i32) {
    // SAFETY: the default action is not a function.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    unblock(&[signal]);
    // SAFETY: raising a signal has no condition.
    unsafe { libc::raise(signal) };
}

/// Stops this process until it is continued, as `SIGTSTP` does where it is not blocked.
pub(crate) fn stop() {
    unblock(&[libc::SIGTSTP]);
    // SAFETY: raising a signal has no condition.
    unsafe { libc::raise(libc::SIGTSTP) };
    block(&set_of(&[libc::SIGTSTP]));
}

fn block(set: &libc::sigset_t) {
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, set, std::ptr::null_mut()) };
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

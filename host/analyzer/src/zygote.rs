//! The process that waits for requests and has each served by a process of its own.
//!
//! A worker is forked before its request comes, and ends with its text. The next one is forked when the next request comes,
//! or after a pause: a host that runs one program asks once, and is busy with it then. What a worker writes goes through a
//! pipe; the host hears of it only after the worker has ended well.

use std::io::{self, PipeReader, PipeWriter, Read, Stdin, Stdout, Write};
use std::os::fd::AsFd;

use codebox_analysis::protocol::{End, MAX_ANSWER, REQUEST_LENGTHS, Report, Task, request_lengths};
use codebox_analyzer::answer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::filter::Filter;
use crate::sys::{self, Ended, Forked};
use crate::worker;

/// Open files of the process: the standard ones, and two pipes.
const OPEN_FILES: u64 = 16;

/// The pause after an answer before the next worker is forked.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Bytes that are passed on at once.
const CHUNK: usize = 64 << 10;

/// Serves requests until the host is gone.
pub fn serve() -> io::Result<()> {
    sys::close_inherited();
    // Reads once how large the stack is, from a file that cannot be opened later.
    let _ = answer(&Task::IsPython, "1");
    let workers = Filter::worker()?;
    confine()?;
    let (mut requests, mut reports) = (io::stdin(), io::stdout());
    loop {
        let worker = Worker::fork(&workers)?;
        if !serve_one(worker, &mut requests, &mut reports)? {
            return Ok(());
        }
        // The host asks again only after it was answered, so no request waits in the buffer. Reading reports an error again.
        let _ = poll(&mut [PollFd::from_borrowed_fd(requests.as_fd(), PollFlags::IN)], Some(&PAUSE));
    }
}

fn confine() -> io::Result<()> {
    let limits = [(Resource::Core, 0), (Resource::Fsize, 0), (Resource::Nofile, OPEN_FILES)];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Filter::zygote()?.apply()
}

/// A process that waits for its one request.
struct Worker {
    process: libc::pid_t,
    request: PipeWriter,
    answer: PipeReader,
}

impl Worker {
    /// Forks a worker that puts `filter` on itself.
    fn fork(filter: &Filter) -> io::Result<Self> {
        let (their_request, request) = io::pipe()?;
        let (answer, their_answer) = io::pipe()?;
        match sys::fork()? {
            Forked::Parent(process) => Ok(Self { process, request, answer }),
            Forked::Child => {
                drop((request, answer));
                let confined = (|| {
                    set_parent_process_death_signal(Some(Signal::KILL))?;
                    // The host's pipes are the parent's alone.
                    sys::close_standard();
                    filter.apply()
                })();
                match confined {
                    Ok(()) => worker::work(their_request, their_answer, |_| Vec::new()),
                    Err(_) => sys::exit(worker::EXIT_REQUEST),
                }
            }
        }
    }
}

/// Passes one request on and reports what came of it; false when the host is gone.
fn serve_one(worker: Worker, requests: &mut Stdin, reports: &mut Stdout) -> io::Result<bool> {
    let Worker { process, mut request, answer } = worker;
    let mut lengths = [0; REQUEST_LENGTHS];
    if !read_whole(requests, &mut lengths)? {
        return Ok(false);
    }
    let (header, text) = request_lengths(lengths).map_err(io::Error::other)?;
    // A worker that is gone takes nothing, and the rest of the request has to be read all the same.
    let mut is_there = request.write_all(&lengths).is_ok();
    let mut left = header + text;
    let mut chunk = vec![0; CHUNK.min(left)];
    while left > 0 {
        let part = CHUNK.min(left);
        requests.read_exact(&mut chunk[..part])?;
        is_there = is_there && request.write_all(&chunk[..part]).is_ok();
        left -= part;
    }
    drop((request, chunk));
    let Some(answer) = collect(answer, requests)? else { return Ok(false) };
    let Ended { status, signal, cpu_us, peak_kib } = sys::wait(process)?;
    let end = match (status, signal) {
        (Some(0), _) if answer.len() <= MAX_ANSWER => End::Done,
        (Some(0 | sys::EXIT_MEMORY), _) | (_, Some(libc::SIGKILL)) => End::Memory,
        (_, Some(libc::SIGPROF | libc::SIGXCPU)) => End::Cpu,
        (_, Some(libc::SIGSEGV | libc::SIGBUS)) => End::Stack,
        _ => End::Crashed,
    };
    let answer = if end == End::Done { answer } else { Vec::new() };
    let report = Report { end, cpu_us, peak_kib, answer: answer.len() };
    reports.write_all(&report.encode())?;
    reports.write_all(&answer)?;
    reports.flush()?;
    Ok(true)
}

/// All that a worker writes, or one byte more than it may; nothing when the host is gone, which ends the worker too.
fn collect(mut answer: PipeReader, host: &Stdin) -> io::Result<Option<Vec<u8>>> {
    let mut collected = Vec::new();
    let mut chunk = vec![0; CHUNK];
    while collected.len() <= MAX_ANSWER {
        let fds = &mut [
            PollFd::from_borrowed_fd(answer.as_fd(), PollFlags::IN),
            // A closed pipe is told of without being asked for.
            PollFd::from_borrowed_fd(host.as_fd(), PollFlags::empty()),
        ];
        match poll(fds, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        if fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Ok(None);
        }
        if fds[0].revents().is_empty() {
            continue;
        }
        match answer.read(&mut chunk)? {
            0 => break,
            count => collected.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(Some(collected))
}

/// Fills the buffer; false at the end of the input.
fn read_whole(from: &mut Stdin, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

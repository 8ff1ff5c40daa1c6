//! The zygote: the process that waits for requests and forks a worker for each.
//!
//! A worker is forked before its request arrives and ends with its text. The next worker is forked when the next
//! request arrives, or after a pause, because a host that runs one program sends one request and is then busy with the
//! program. The worker writes its answer to a pipe, and the answer is reported to the host only after the worker has
//! exited successfully.

use std::io::{self, PipeReader, PipeWriter, Read, Stdin, Stdout, Write};
use std::os::fd::AsFd;

use codebox_analysis::protocol::{MAX_ANSWER, REQUEST_LENGTHS_SIZE, Report, ReportStatus, Task, request_lengths};
use codebox_analyzer::answer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::filter::Filter;
use crate::sys::{self, ChildExit, ForkResult};
use crate::worker;

/// The limit on open files of the process, for the standard descriptors and two pipes.
const MAX_OPEN_FILES: u64 = 16;

/// The pause after an answer before the next worker is forked.
const FORK_DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The size of the parts in which data is copied, in bytes.
const CHUNK_SIZE: usize = 64 << 10;

/// Serves requests until the host closes its end.
pub fn serve() -> io::Result<()> {
    sys::close_inherited();
    // The first parse reads the size of the stack from a file, which cannot be opened after confinement.
    let _ = answer(&Task::IsPython, "1");
    let workers = Filter::worker()?;
    confine()?;
    let (mut requests, mut reports) = (io::stdin(), io::stdout());
    loop {
        let worker = Worker::fork(&workers)?;
        if !serve_one(worker, &mut requests, &mut reports)? {
            return Ok(());
        }
        // The host sends the next request only after the report, so the input buffer is empty. An error of `poll`
        // occurs again on the next read.
        let _ = poll(&mut [PollFd::from_borrowed_fd(requests.as_fd(), PollFlags::IN)], Some(&FORK_DELAY));
    }
}

fn confine() -> io::Result<()> {
    let limits = [(Resource::Core, 0), (Resource::Fsize, 0), (Resource::Nofile, MAX_OPEN_FILES)];
    for (resource, limit) in limits {
        setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?;
    }
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Filter::zygote()?.apply()
}

/// A worker process that waits for its only request.
struct Worker {
    process: libc::pid_t,
    request: PipeWriter,
    answer: PipeReader,
}

impl Worker {
    /// Forks a worker that applies `filter` to itself.
    fn fork(filter: &Filter) -> io::Result<Self> {
        let (worker_request, request) = io::pipe()?;
        let (answer, worker_answer) = io::pipe()?;
        match sys::fork()? {
            ForkResult::Parent(process) => Ok(Self { process, request, answer }),
            ForkResult::Child => {
                drop((request, answer));
                let confined = (|| {
                    set_parent_process_death_signal(Some(Signal::KILL))?;
                    // Only the parent may use the host's pipes.
                    sys::close_stdio();
                    filter.apply()
                })();
                match confined {
                    Ok(()) => worker::run_request(worker_request, worker_answer, |_| Vec::new()),
                    Err(_) => sys::exit(worker::EXIT_REQUEST),
                }
            }
        }
    }
}

/// Passes one request to a worker and reports the result. Returns false if the host has closed its end.
fn serve_one(worker: Worker, requests: &mut Stdin, reports: &mut Stdout) -> io::Result<bool> {
    let Worker { process, mut request, answer } = worker;
    let mut lengths = [0; REQUEST_LENGTHS_SIZE];
    if !read_or_eof(requests, &mut lengths)? {
        return Ok(false);
    }
    let (header, text) = request_lengths(lengths).map_err(io::Error::other)?;
    // A worker that has ended accepts no data, but the rest of the request must still be read.
    let mut is_alive = request.write_all(&lengths).is_ok();
    let mut left = header + text;
    let mut chunk = vec![0; CHUNK_SIZE.min(left)];
    while left > 0 {
        let part = CHUNK_SIZE.min(left);
        requests.read_exact(&mut chunk[..part])?;
        is_alive = is_alive && request.write_all(&chunk[..part]).is_ok();
        left -= part;
    }
    drop((request, chunk));
    let Some(answer) = read_answer(answer, requests)? else { return Ok(false) };
    let ChildExit { status, signal, cpu_us, peak_kib } = sys::wait(process)?;
    let end = match (status, signal) {
        (Some(0), _) if answer.len() <= MAX_ANSWER => ReportStatus::Done,
        (Some(0 | sys::EXIT_MEMORY), _) | (_, Some(libc::SIGKILL)) => ReportStatus::Memory,
        (_, Some(libc::SIGPROF | libc::SIGXCPU)) => ReportStatus::Cpu,
        (_, Some(libc::SIGSEGV | libc::SIGBUS)) => ReportStatus::Stack,
        _ => ReportStatus::Crashed,
    };
    let answer = if end == ReportStatus::Done { answer } else { Vec::new() };
    let report = Report { end, cpu_us, peak_kib, answer: answer.len() };
    reports.write_all(&report.encode())?;
    reports.write_all(&answer)?;
    reports.flush()?;
    Ok(true)
}

/// Reads everything that a worker writes, up to one byte beyond the limit. Returns `None` if the host has closed its
/// end, which also ends the worker.
fn read_answer(mut answer: PipeReader, host: &Stdin) -> io::Result<Option<Vec<u8>>> {
    let mut collected = Vec::new();
    let mut chunk = vec![0; CHUNK_SIZE];
    while collected.len() <= MAX_ANSWER {
        let fds = &mut [
            PollFd::from_borrowed_fd(answer.as_fd(), PollFlags::IN),
            // A closed pipe is reported without a requested event.
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

/// Fills the buffer. Returns false at the end of the input.
fn read_or_eof(from: &mut Stdin, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

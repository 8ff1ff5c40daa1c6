//! The agent's main loop, which handles requests from the host.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use codebox_agent::frame::Decoder;
use codebox_agent::{Event, PROTOCOL_VERSION, QueryPermission, Request};
use rustix::process::{DumpableBehavior, Signal, getpid, kill_process, set_dumpable_behavior};

use crate::attached::{self, JobUser};
use crate::boxes;
use crate::filter;
use crate::job::{self, JobContext};
use crate::limits;
use crate::oom_score::OomScore;
use crate::port_forwards::PortForwarder;
use crate::pty;
use crate::queries::Queries;
use crate::reach::Reach;
use crate::writer::EventWriter;

/// Handles requests until the host's stream ends. The agent's exit then ends everything in the container. `process_limits` are those of
/// its programs.
pub(crate) fn serve(process_limits: impl Iterator<Item = String>) -> io::Result<()> {
    if !getpid().is_init() {
        // At the end of a job the agent kills every process that it can, which outside a container are the user's own.
        return Err(io::Error::other("serve must run as the first process of a container"));
    }
    remove_fault_handlers()?;
    limits::apply(process_limits)?;
    run(Reach::Container, None)
}

/// Handles requests in a container that has other processes, until the host's stream ends, and ends the processes of its jobs then.
/// `user` is that of the jobs.
pub(crate) fn serve_attached(user: &str) -> io::Result<()> {
    let dir = attached::own_dir();
    let user = attached::prepare(user)?;
    let served = run(Reach::Descendants, user);
    Reach::Descendants.kill_and_reap();
    // Only root can remove it; otherwise the host does.
    let _ = attached::discard(dir.as_deref());
    served
}

/// Removes the handlers of `std` for `SIGSEGV` and `SIGBUS`, which report a stack overflow.
///
/// A program in the container can send these signals to this process at the same time as others that it handles. The frames of nested
/// handlers then exceed the alternative stack, which has 8 KiB, and the kernel ends the process. Signals with the default action do not
/// reach the first process of a container. The handlers set that action themselves when the address of the fault is not in a
/// guard page, as that of a signal from `kill`.
fn remove_fault_handlers() -> io::Result<()> {
    for signal in [Signal::SEGV, Signal::BUS] {
        kill_process(getpid(), signal)?;
    }
    Ok(())
}

fn run(reach: Reach, user: Option<JobUser>) -> io::Result<()> {
    // Opened now, because the next call makes root the owner of this process's files in /proc.
    let oom_score = OomScore::open();
    // A job runs as the same user but must not inspect this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Installed before a second thread exists, so that all threads and all processes of the job have the filter.
    filter::apply()?;
    let writer = EventWriter::from_stdout()?;
    let mut requests = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    writer.send(&Event::Ready(PROTOCOL_VERSION));
    let queries = Queries::default();
    let port_forwards = PortForwarder::default();
    let mut context = JobContext { oom_score, port_forwards, writer, reach, user, terminal: Arc::default() };
    let mut input: Option<Sender<Vec<u8>>> = None;
    let mut decoder = Decoder::new(Request::MAX_PAYLOAD_SIZE);
    let mut buffer = vec![0; 64 << 10];
    loop {
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            match Request::decode(frame) {
                Some(Request::Run(run)) => {
                    let (sender, receiver) = channel();
                    input = Some(sender);
                    // The open queries belong to the previous job, which has ended.
                    queries.cancel_all();
                    if run.query_permission == QueryPermission::Allowed {
                        queries.listen(&context.writer)?;
                    }
                    // Opened before the job starts, so that the job can connect at once.
                    context.port_forwards.open(&run.port_forwards, &context.writer)?;
                    let context = context.clone();
                    thread::spawn(move || job::run(&run, receiver, &context));
                }
                Some(Request::Input(bytes)) => {
                    if let Some(input) = &input {
                        let _ = input.send(bytes);
                    }
                }
                Some(Request::InputEnd) => input = None,
                Some(Request::Signal(number)) => {
                    if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                        reach.signal(signal);
                        if signal == Signal::KILL {
                            context.port_forwards.close_all();
                        }
                    }
                }
                Some(Request::Resize(size)) => {
                    if let Some(terminal) = &*job::lock(&context.terminal) {
                        pty::resize(terminal, size);
                    }
                }
                Some(Request::Answer(number, bytes)) => queries.answer(number, bytes),
                Some(Request::Connection(number, stream_event)) => {
                    context.port_forwards.stream_event(number, stream_event);
                }
                // A box runs commands of its own, and no job before or after it.
                Some(Request::OpenBox(open)) if input.is_none() && reach == Reach::Container => {
                    return boxes::serve(*open, requests, decoder, &context.writer, context.oom_score);
                }
                Some(Request::OpenBox(_) | Request::Command(..)) | None => {
                    return Err(io::Error::other("malformed request"));
                }
            }
        }
        match requests.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! The agent's main loop, which handles requests from the host.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use codebox_agent::frame::Decoder;
use codebox_agent::{Event, PROTOCOL_VERSION, QueryPermission, Request};
use rustix::process::{DumpableBehavior, Signal, getpid, set_dumpable_behavior};

use crate::boxes;
use crate::filter;
use crate::job;
use crate::oom_score::OomScore;
use crate::port_forwards::PortForwarder;
use crate::queries::Queries;
use crate::writer::EventWriter;

/// Handles requests until the host's stream ends. The agent's exit then ends everything in the container.
pub(crate) fn serve() -> io::Result<()> {
    if !getpid().is_init() {
        // At the end of a job the agent kills every process that it can, which outside a container are the user's own.
        return Err(io::Error::other("serve must run as the first process of a container"));
    }
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
    let mut port_forwards = PortForwarder::default();
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
                        queries.listen(&writer)?;
                    }
                    // Opened before the job starts, so that the job can connect at once.
                    port_forwards.open(&run.port_forwards, &writer)?;
                    let (writer, oom_score, port_forwards) = (writer.clone(), oom_score.clone(), port_forwards.clone());
                    thread::spawn(move || job::run(&run, receiver, &oom_score, &port_forwards, &writer));
                }
                Some(Request::Input(bytes)) => {
                    if let Some(input) = &input {
                        let _ = input.send(bytes);
                    }
                }
                Some(Request::InputEnd) => input = None,
                Some(Request::Signal(number)) => {
                    if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                        job::signal_all(signal);
                        if signal == Signal::KILL {
                            port_forwards.close_all();
                        }
                    }
                }
                Some(Request::Answer(number, bytes)) => queries.answer(number, bytes),
                Some(Request::Connection(number, stream_event)) => port_forwards.stream_event(number, stream_event),
                // A box runs commands of its own, and no job before or after it.
                Some(Request::OpenBox(open)) if input.is_none() => {
                    return boxes::serve(*open, requests, decoder, &writer, oom_score);
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

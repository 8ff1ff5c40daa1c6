//! The agent's main loop, which handles requests from the host.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use codebox_agent::frame::Decoder;
use codebox_agent::{Asks, Order, Word};
use rustix::process::{DumpableBehavior, Signal, getpid, set_dumpable_behavior};

use crate::doors::Doors;
use crate::filter;
use crate::job;
use crate::line::Line;
use crate::oom_mark::OomMark;
use crate::questions::Questions;

/// Handles requests until the host's stream ends. The agent's exit then ends everything in the container.
pub(crate) fn serve() -> io::Result<()> {
    if !getpid().is_init() {
        // At the end of a job the agent kills every process that it can, which outside a container are the user's own.
        return Err(io::Error::other("serve must run as the first process of a container"));
    }
    // Opened now, because the next call makes root the owner of this process's files in /proc.
    let mark = OomMark::open();
    // A job runs as the same user but must not inspect this process.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // Installed before a second thread exists, so that all threads and all processes of the job have the filter.
    filter::apply()?;
    let line = Line::of_stdout()?;
    let mut orders = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    line.send(&Word::Ready);
    let questions = Questions::default();
    let mut doors = Doors::default();
    let mut input: Option<Sender<Vec<u8>>> = None;
    let mut decoder = Decoder::new(Order::LONGEST);
    let mut buffer = vec![0; 64 << 10];
    loop {
        while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
            match Order::decode(frame) {
                Some(Order::Run(run)) => {
                    let (sender, receiver) = channel();
                    input = Some(sender);
                    // The open queries belong to the previous job, which has ended.
                    questions.give_up();
                    if run.asks == Asks::Questions {
                        questions.listen(&line)?;
                    }
                    // Opened before the job starts, so that the job can connect at once.
                    doors.open(&run.doors, &line)?;
                    let (line, mark, doors) = (line.clone(), mark.clone(), doors.clone());
                    thread::spawn(move || job::run(&run, receiver, &mark, &doors, &line));
                }
                Some(Order::Input(bytes)) => {
                    if let Some(input) = &input {
                        let _ = input.send(bytes);
                    }
                }
                Some(Order::InputEnd) => input = None,
                Some(Order::Signal(number)) => {
                    if let Some(signal) = Signal::from_named_raw(i32::from(number)) {
                        job::signal_all(signal);
                        if signal == Signal::KILL {
                            doors.cut();
                        }
                    }
                }
                Some(Order::Answer(number, bytes)) => questions.answer(number, bytes),
                Some(Order::Way(number, said)) => doors.said(number, said),
                None => return Err(io::Error::other("malformed request")),
            }
        }
        match orders.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

//! Clients of boxes.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::{BoxCommand, BoxInfo, CommandInput, Outcome, ResultKind, RunReport, RunnerError};
use codebox_runner::{BoxIo, BoxLogEntry, Shaping};
use codebox_worker::frame::{self, Kind};
use serde_bytes::ByteBuf;

use super::log;
use super::message::{BoxAnswer, BoxHello, BoxRequest, INPUT_WINDOW, MAX_INPUT};
use super::place::{BoxDir, BoxPlace};
use crate::message::VERSION;

/// Number of the signal that kills a command.
pub(super) const SIGKILL: u8 = 9;

/// Maximum time until a box that is stopped has ended.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval at which that is checked.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(5);

impl BoxPlace {
    /// Runs a command in a box.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if it ends before the command.
    pub fn exec(&self, name: &str, command: BoxCommand, io: BoxIo<'_>) -> Result<RunReport, RunnerError> {
        let BoxIo { stdin, control, cancel, shaping, tool, output } = io;
        let dir = self.existing(name)?;
        let stream = connect(&dir).map_err(|error| failed(&format!("reach the box {name}"), &error))?;
        let mut stream = stream.ok_or_else(|| ended(&dir, name))?;
        let lost = |_: io::Error| ended(&dir, name);
        let is_whole = shaping == Shaping::Off;
        send(&mut stream, &BoxRequest::Exec { command, is_whole, tool }).map_err(lost)?;
        let requests = Arc::new(Mutex::new(stream.try_clone().map_err(lost)?));
        let cancellation = Arc::clone(&requests);
        let _cancellation = cancel.on_cancel(move || write(&cancellation, &BoxRequest::Signal(SIGKILL)));
        // The threads end with this process, or with the connection.
        let (taken, credit) = sync_channel(INPUT_WINDOW);
        match stdin {
            Some(stdin) => {
                let requests = Arc::clone(&requests);
                thread::spawn(move || pass_input(stdin, &credit, &requests));
            }
            None => write(&requests, &BoxRequest::Input(ByteBuf::new())),
        }
        if let Some(control) = control {
            let requests = Arc::clone(&requests);
            thread::spawn(move || pass_control(&control, &requests));
        }
        // The process of the box keeps no output that it has passed on.
        let mut collected = [Vec::new(), Vec::new()];
        loop {
            match frame::read(&mut stream) {
                Ok(Some(BoxAnswer::Output(stream, bytes))) => {
                    output(stream, &bytes);
                    collected[usize::from(stream.min(1))].extend_from_slice(&bytes);
                }
                Ok(Some(BoxAnswer::InputTaken)) => return_credit(&taken),
                Ok(Some(BoxAnswer::Ended(mut report))) => {
                    let [stdout, stderr] = collected;
                    (report.stdout.head, report.stderr.head) = (stdout, stderr);
                    if cancel.is_cancelled() && report.outcome == Outcome::Signalled(i32::from(SIGKILL)) {
                        report.outcome = Outcome::Cancelled;
                    }
                    return Ok(*report);
                }
                Ok(Some(BoxAnswer::Failed(failure))) => return Err(failure.into()),
                Ok(Some(_)) => return Err(lost(io::Error::other("unexpected message"))),
                Ok(None) => return Err(lost(io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(lost(error)),
            }
        }
    }

    /// Returns facts about all boxes, the oldest first, including those that have ended by themselves.
    ///
    /// # Errors
    /// Returns an error if they cannot be listed.
    pub fn list(&self) -> Result<Vec<BoxInfo>, RunnerError> {
        let dirs = self.all().map_err(|error| failed("list the boxes", &error))?;
        let mut boxes: Vec<BoxInfo> = dirs.iter().filter_map(info).collect();
        boxes.sort_by(|one, other| (one.created_ms, &one.name).cmp(&(other.created_ms, &other.name)));
        Ok(boxes)
    }

    /// Returns the log of a box, the oldest entry first.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if its log cannot be read.
    pub fn log(&self, name: &str) -> Result<Vec<BoxLogEntry>, RunnerError> {
        let dir = self.existing(name)?;
        log::read(dir.path()).map_err(|error| failed(&format!("read the log of the box {name}"), &error))
    }

    /// Ends a box, and removes its log and its files.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if it cannot be removed.
    pub fn stop(&self, name: &str) -> Result<(), RunnerError> {
        let dir = self.existing(name)?;
        let failed = |error: io::Error| failed(&format!("stop the box {name}"), &error);
        // The process has the lock until its container is gone. One that is starting has no socket yet.
        let until = Instant::now() + STOP_TIMEOUT;
        let mut is_requested = false;
        loop {
            if !is_requested && let Some(mut stream) = connect(&dir).map_err(failed)? {
                let answer = send(&mut stream, &BoxRequest::Stop).and_then(|()| frame::read(&mut stream));
                // Without an answer, it has ended meanwhile.
                if let Ok(Some(BoxAnswer::Failed(failure))) = answer {
                    return Err(failure.into());
                }
                is_requested = true;
            }
            if !dir.path().exists() {
                return Ok(());
            }
            match dir.0.lock() {
                Ok(Some(_lock)) => return if dir.path().exists() { dir.remove().map_err(failed) } else { Ok(()) },
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed(error)),
                Ok(None) if Instant::now() > until => return Err(failed(io::ErrorKind::TimedOut.into())),
                Ok(None) => thread::sleep(STOP_CHECK_INTERVAL),
            }
        }
    }

    fn existing(&self, name: &str) -> Result<BoxDir, RunnerError> {
        let dir = self.of(name).filter(|dir| dir.path().exists());
        dir.ok_or_else(|| no_box(name))
    }
}

/// Returns the error for a box that has ended by itself.
fn ended(dir: &BoxDir, name: &str) -> RunnerError {
    let reason = dir.read_info().and_then(|info| info.ended);
    let reason = reason.unwrap_or_else(|| "its process was killed".to_owned());
    let line = format!("the box {name} has ended: {reason}");
    RunnerError::new(ResultKind::EngineLost, line).with_fix("start it again with codebox box start")
}

fn no_box(name: &str) -> RunnerError {
    let shown: String = name.chars().take(100).collect();
    let line = format!("there is no box {shown:?}");
    RunnerError::new(ResultKind::InvalidRequest, line)
        .with_fix("see codebox box list, or start it with codebox box start")
}

fn failed(action: &str, error: &io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot {action}: {error}"))
}

/// Connects to the process of a box; `None` if there is none.
fn connect(dir: &BoxDir) -> io::Result<Option<UnixStream>> {
    let Some(stream) = dir.0.connect()? else { return Ok(None) };
    // A process that has just ended is noticed by the next message.
    let _ = frame::write(&mut &stream, Kind::Ordinary, &BoxHello { version: VERSION.to_owned() });
    Ok(Some(stream))
}

/// Returns facts about a box, from its process or, without one, from its files.
fn info(dir: &BoxDir) -> Option<BoxInfo> {
    let asked = connect(dir).ok().flatten().and_then(|mut stream| {
        send(&mut stream, &BoxRequest::Info).ok()?;
        match frame::read(&mut stream).ok()? {
            Some(BoxAnswer::Info(info)) => Some(*info),
            _ => None,
        }
    });
    asked.or_else(|| {
        let info = dir.read_info()?;
        let ended = info.ended.clone().unwrap_or_else(|| "its process was killed".to_owned());
        Some(BoxInfo { ended: Some(ended), ..info })
    })
}

fn send(stream: &mut UnixStream, request: &BoxRequest) -> io::Result<()> {
    frame::write(stream, Kind::Ordinary, request)
}

/// Sends a message while a command runs. Messages of several threads do not mix.
fn write(stream: &Mutex<UnixStream>, request: &BoxRequest) {
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    // The end of the process is noticed by the reader.
    let _ = send(&mut stream, request);
}

/// Counts a piece of input that was taken. More than were sent are ignored.
fn return_credit(taken: &SyncSender<()>) {
    let _ = taken.try_send(());
}

/// Sends standard input, at most as much at once as the process accepts.
fn pass_input(mut stdin: Box<dyn Read + Send>, credit: &Receiver<()>, requests: &Mutex<UnixStream>) {
    let mut buffer = vec![0; MAX_INPUT];
    let mut waiting = 0;
    loop {
        let count = match stdin.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // An input that cannot be read ends, as a pipe ends when its writer dies.
            count => count.unwrap_or(0),
        };
        while credit.try_recv().is_ok() {
            waiting -= 1;
        }
        if waiting == INPUT_WINDOW {
            if credit.recv().is_err() {
                return;
            }
            waiting -= 1;
        }
        write(requests, &BoxRequest::Input(ByteBuf::from(&buffer[..count])));
        if count == 0 {
            return;
        }
        waiting += 1;
    }
}

fn pass_control(control: &Receiver<CommandInput>, requests: &Mutex<UnixStream>) {
    for input in control {
        match input {
            CommandInput::Signal(signal) => write(requests, &BoxRequest::Signal(signal)),
            CommandInput::Resize(size) => write(requests, &BoxRequest::Resize(size)),
            CommandInput::Bytes(_) | CommandInput::End => {}
        }
    }
}

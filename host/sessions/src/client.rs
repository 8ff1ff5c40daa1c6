//! Clients of the process that keeps the sessions.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use codebox_core::{
    Job, ResultKind, RunReport, RunnerError, SecretName, SecretValue, SessionContainer, SessionInfo, Stdin,
    ToolCalls as _, ToolDescription, ToolFailure, ToolResult,
};
use codebox_runner::{Cell, CellIo, Resumption, SuspendedCell};
use codebox_service::Audit;
use codebox_worker::frame::{self, Kind};
use serde_bytes::ByteBuf;
use tokio::task::JoinHandle;

use crate::connection::PIECE;
use crate::message::{Answer, Hello, MAX_CELL, MAX_TOOL_RESULT, Request, VERSION};
use crate::place::Place;

/// Maximum time until a process that was started accepts clients.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which that is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Error of a request.
pub type ClientError = RunnerError;

/// Connection to the process that keeps the sessions.
pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects to the process; `None` if there is none.
    ///
    /// # Errors
    /// The system's error, with the action.
    pub fn connect(place: &Place) -> Result<Option<Self>, ClientError> {
        let Some(stream) = place.connect().map_err(|error| failed("reach", &error))? else { return Ok(None) };
        let mut client = Self { stream };
        if client.send(&Hello { version: VERSION.to_owned() }).is_err() {
            return Ok(None);
        }
        // A process that is about to end does not answer.
        match frame::read(&mut &client.stream) {
            Ok(Some(Answer::Done)) => Ok(Some(client)),
            Ok(Some(Answer::Failed(failure))) => Err(failure.into()),
            Ok(Some(_)) => Err(unexpected()),
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// Connects to the process, and starts it with `start` if there is none.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect); also if the process cannot be started.
    pub fn connect_or_start(place: &Place, start: impl Fn() -> io::Result<()>) -> Result<Self, ClientError> {
        if let Some(client) = Self::connect(place)? {
            return Ok(client);
        }
        // A process that is about to end has the lock for a moment, and another client may start one as well.
        let until = Instant::now() + START_TIMEOUT;
        loop {
            start().map_err(|error| failed("start", &error))?;
            if let Some(client) = Self::connect(place)? {
                return Ok(client);
            }
            if Instant::now() > until {
                return Err(failed("start", &io::Error::other("it does not accept connections")));
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Sets the use of the audit log by the requests that follow. The settings of the process are those of its start.
    ///
    /// # Errors
    /// Returns an error if the process is gone.
    pub fn use_audit(&mut self, audit: Audit) -> Result<(), ClientError> {
        self.send(&Request::UseAudit(audit))
    }

    fn send<T: serde::Serialize>(&mut self, message: &T) -> Result<(), ClientError> {
        frame::write(&mut &self.stream, Kind::Ordinary, message).map_err(|error| failed("reach", &error))
    }

    fn receive(&mut self) -> Result<Answer, ClientError> {
        match frame::read(&mut &self.stream) {
            Ok(Some(Answer::Failed(failure))) => Err(failure.into()),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(failed("reach", &io::Error::new(io::ErrorKind::UnexpectedEof, "it has ended"))),
            Err(error) => Err(failed("reach", &error)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, ClientError> {
        self.send(request)?;
        self.receive()
    }

    fn done(&mut self, request: &Request) -> Result<(), ClientError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// Creates a session with the language, grants, limits and packages of an admitted job, and returns its id.
    ///
    /// # Errors
    /// As for [`Runner::session`](codebox_runner::Runner::session).
    pub fn create(&mut self, job: Job, container: SessionContainer) -> Result<String, ClientError> {
        match self.ask(&Request::Create(Box::new(job), container))? {
            Answer::Created(mut ids) => ids.pop().ok_or_else(unexpected),
            _ => Err(unexpected()),
        }
    }

    /// Runs a cell. Its calls of tools are made in this process.
    ///
    /// # Errors
    /// As for [`Session::exec`](codebox_runner::Session::exec).
    pub fn exec(&mut self, id: &str, cell: Cell, io: CellIo<'_>) -> Result<RunReport, ClientError> {
        if cell.stdin == Stdin::Streamed {
            let line = "a cell of a session that another process keeps cannot read a stream";
            let error =
                RunnerError::new(ResultKind::InvalidRequest, line).with_fix("pass the whole input with the cell");
            return Err(error);
        }
        let size = cell.text.len() + cell.files.iter().map(|file| file.content.len()).sum::<usize>();
        let size = size + if let Stdin::Bytes(bytes) = &cell.stdin { bytes.len() } else { 0 };
        if size > MAX_CELL {
            let line = format!("the cell, its standard input and its files have more than {MAX_CELL} bytes");
            let error = RunnerError::new(ResultKind::InvalidRequest, line).with_fix("grant a directory with the data");
            return Err(error);
        }
        let (id, suspends) = (id.to_owned(), io.suspends.clone());
        self.run(io, |tools| Request::Exec { id, cell: Box::new(cell), tools, suspends })
    }

    /// Runs a suspended cell again, with a decision about the call at this position that it waits for, and goes on. The calls before have the
    /// recorded results.
    ///
    /// # Errors
    /// Returns an error if the session is not suspended, if it waits for another call, or if the cell takes another course than before.
    pub fn resume(
        &mut self,
        id: &str,
        position: u64,
        resumption: Resumption,
        io: CellIo<'_>,
    ) -> Result<RunReport, ClientError> {
        let id = id.to_owned();
        self.run(io, |tools| Request::Resume { id, position, resumption, tools })
    }

    /// Returns the suspended cell of a session.
    ///
    /// # Errors
    /// Returns an error if the session is not suspended.
    pub fn suspended(&mut self, id: &str) -> Result<SuspendedCell, ClientError> {
        match self.ask(&Request::Suspended(id.to_owned()))? {
            Answer::Suspended(cell) => Ok(cell),
            _ => Err(unexpected()),
        }
    }

    /// Ends a suspended cell, whose last call has this position. Without one, only a cell whose record is damaged is ended. The session has
    /// the state before it.
    ///
    /// # Errors
    /// Returns an error if the session is not suspended, or waits for another call.
    pub fn discard(&mut self, id: &str, position: Option<u64>) -> Result<(), ClientError> {
        self.done(&Request::Discard(id.to_owned(), position))
    }

    /// Sends the request of a cell, and passes its output and calls on until it has ended.
    fn run(
        &mut self,
        io: CellIo<'_>,
        request: impl FnOnce(Option<Vec<ToolDescription>>) -> Request,
    ) -> Result<RunReport, ClientError> {
        let CellIo { cancel, tools, suspends: _, output } = io;
        let list = tools.as_ref().map(|tools| tools.run.list());
        self.send(&request(list))?;
        let stream = self.stream.try_clone().map_err(|error| failed("reach", &error))?;
        let requests = Arc::new(Mutex::new(stream));
        let cancellation = Arc::clone(&requests);
        let _cancellation = cancel.on_cancel(move || write(&cancellation, &Request::Cancel));
        let mut calls = Calls::default();
        let mut report = loop {
            match self.receive()? {
                Answer::Output(stream, bytes) => output(stream, &bytes),
                Answer::ToolCall { number, name, input, is_approved } => {
                    let tools = tools.as_ref().ok_or_else(unexpected)?;
                    let call = tools.run.start(&name, input.into_vec(), is_approved);
                    let requests = Arc::clone(&requests);
                    calls.0.push(tools.executor.spawn(async move {
                        let result = call.await.and_then(within_limit).map(ByteBuf::from);
                        write(&requests, &Request::ToolResult(number, result));
                    }));
                }
                Answer::Ended(report) => break *report,
                _ => return Err(unexpected()),
            }
        };
        drop(calls);
        if let Some(tools) = tools {
            tools.run.report(&mut report);
        }
        Ok(report)
    }

    /// Creates sessions with the state of another one, and returns their ids.
    ///
    /// # Errors
    /// As for [`Session::fork`](codebox_runner::Session::fork).
    pub fn fork(&mut self, id: &str, count: u32) -> Result<Vec<String>, ClientError> {
        match self.ask(&Request::Fork { id: id.to_owned(), count })? {
            Answer::Created(ids) => Ok(ids),
            _ => Err(unexpected()),
        }
    }

    /// Saves the state of a session under a name, in place of an earlier one of this name.
    ///
    /// # Errors
    /// As for [`Session::checkpoint`](codebox_runner::Session::checkpoint).
    pub fn checkpoint(&mut self, id: &str, name: &str) -> Result<(), ClientError> {
        self.done(&Request::Checkpoint { id: id.to_owned(), name: name.to_owned() })
    }

    /// Returns to the state of a checkpoint.
    ///
    /// # Errors
    /// As for [`Session::restore`](codebox_runner::Session::restore).
    pub fn restore(&mut self, id: &str, name: &str) -> Result<(), ClientError> {
        self.done(&Request::Restore { id: id.to_owned(), name: name.to_owned() })
    }

    /// Writes the state of a session, or that of a checkpoint, to a file.
    ///
    /// # Errors
    /// As for [`Session::export`](codebox_runner::Session::export).
    pub fn export(&mut self, id: &str, name: Option<&str>, to: &mut dyn Write) -> Result<(), ClientError> {
        self.send(&Request::Export { id: id.to_owned(), name: name.map(str::to_owned) })?;
        loop {
            match self.receive()? {
                Answer::Output(_, bytes) => to.write_all(&bytes).map_err(|error| file_error("write", &error))?,
                Answer::Done => return to.flush().map_err(|error| file_error("write", &error)),
                _ => return Err(unexpected()),
            }
        }
    }

    /// Creates a session from a file, with the language, grants, limits and packages of an admitted job, and returns its id.
    ///
    /// # Errors
    /// As for [`Runner::import`](codebox_runner::Runner::import).
    pub fn import(&mut self, job: Job, from: &mut dyn Read) -> Result<String, ClientError> {
        self.send(&Request::Import(Box::new(job)))?;
        let mut piece = vec![0; PIECE];
        loop {
            let count = from.read(&mut piece).map_err(|error| file_error("read", &error))?;
            self.send(&Request::Piece(ByteBuf::from(&piece[..count])))?;
            if count == 0 {
                break;
            }
        }
        match self.receive()? {
            Answer::Created(mut ids) => ids.pop().ok_or_else(unexpected),
            _ => Err(unexpected()),
        }
    }

    /// Gives a session values of its secrets, which are kept in memory alone. The next interpreter of the session uses them.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or if it has no secret of a name.
    pub fn give_secrets(&mut self, id: &str, values: Vec<(SecretName, SecretValue)>) -> Result<(), ClientError> {
        self.done(&Request::GiveSecrets { id: id.to_owned(), values })
    }

    /// Saves the state of a session, and releases its interpreter.
    ///
    /// # Errors
    /// As for [`Session::park`](codebox_runner::Session::park).
    pub fn park(&mut self, id: &str) -> Result<(), ClientError> {
        self.done(&Request::Park(id.to_owned()))
    }

    /// Ends a session and removes its checkpoints.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or if its files cannot be removed.
    pub fn stop(&mut self, id: &str) -> Result<(), ClientError> {
        self.done(&Request::Stop(id.to_owned()))
    }

    /// Returns facts about all sessions, the oldest first.
    ///
    /// # Errors
    /// Returns an error if the process is gone.
    pub fn list(&mut self) -> Result<Vec<SessionInfo>, ClientError> {
        match self.ask(&Request::List)? {
            Answer::Sessions(sessions) => Ok(sessions),
            _ => Err(unexpected()),
        }
    }

    /// Asks the process to save all sessions and to end.
    ///
    /// # Errors
    /// Returns an error if the process is gone.
    pub fn end(&mut self) -> Result<(), ClientError> {
        self.done(&Request::End)
    }
}

/// Calls in progress, which end with their cell.
#[derive(Default)]
struct Calls(Vec<JoinHandle<()>>);

impl Drop for Calls {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Sends a message while a cell runs. Messages of several threads do not mix.
fn write(stream: &Mutex<UnixStream>, request: &Request) {
    let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    // The end of the process is noticed by the reader.
    let _ = frame::write(&mut &*stream, Kind::Ordinary, request);
}

/// Replaces a result that is too large for a message.
fn within_limit(output: Vec<u8>) -> ToolResult {
    if output.len() <= MAX_TOOL_RESULT {
        return Ok(output);
    }
    Err(ToolFailure::new(ToolFailure::BUDGET, format!("the output has more than {MAX_TOOL_RESULT} bytes")))
}

fn file_error(action: &str, error: &io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InvalidRequest, format!("cannot {action} the file of the session: {error}"))
}

fn failed(action: &str, error: &io::Error) -> RunnerError {
    RunnerError::new(ResultKind::InternalError, format!("cannot {action} the process that keeps the sessions: {error}"))
}

fn unexpected() -> RunnerError {
    failed("reach", &io::Error::new(io::ErrorKind::InvalidData, "unexpected message"))
}

//! The process that keeps sessions, as front ends see it.

use std::io::{Read, Write};

use std::sync::Arc;

use codebox_core::{
    CancelToken, Job, ResultKind, RunReport, RunnerError, SecretName, SecretValue, SessionContainer, SessionInfo,
    SuspendedCall, ToolCall, ToolFailure,
};
use codebox_tools::ToolRun;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::session::Cell;

/// Access to the process that keeps sessions.
pub trait SessionControl {
    /// Connects to the process, and starts it if it does not run.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    fn connect(&self) -> Result<Box<dyn SessionClient>, RunnerError>;

    /// Connects to the process; `None` if it does not run.
    ///
    /// # Errors
    /// Returns an error if it cannot be reached.
    fn connect_if_running(&self) -> Result<Option<Box<dyn SessionClient>>, RunnerError>;
}

/// Output, cancellation and tools of a cell that another process runs.
pub struct CellIo<'c> {
    /// Cancels the cell.
    pub cancel: &'c CancelToken,
    /// Tools that the cell may call. They are called in this process.
    pub tools: Option<CellTools>,
    /// Data for the client that resumes the cell, if it is to be suspended at a call that needs an approval.
    pub suspends: Option<String>,
    /// Receives output as it is written: the number of the stream, 0 or 1, and the bytes.
    pub output: &'c mut dyn FnMut(u8, &[u8]),
}

/// Tools of a cell that another process runs.
pub struct CellTools {
    /// The tools, and the record of their calls.
    pub run: Arc<ToolRun>,
    /// Executor in which the results of calls are waited for.
    pub executor: Handle,
}

/// Suspended cell of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuspendedCell {
    /// Data that its client has passed in [`CellIo::suspends`].
    pub client: String,
    /// Number that identifies the last call of the cell, to which a decision refers.
    pub position: u64,
    /// Calls of the cell so far, without their times.
    pub calls: Vec<ToolCall>,
    /// Call that waits for an approval; `None` if the cell was stopped after the decision.
    pub call: Option<SuspendedCall>,
}

impl SuspendedCell {
    /// Returns the calls that are over when the cell goes on in this way.
    #[must_use]
    pub fn calls_before(&self, resumption: Resumption) -> Vec<ToolCall> {
        let mut calls = self.calls.clone();
        match (calls.pop_if(|_| self.call.is_some()), resumption) {
            (Some(denied), Resumption::Deny) => {
                calls.push(ToolCall { failure: Some(ToolFailure::DENIED.to_owned()), ..denied });
            }
            // The call is made now, and counted then.
            (Some(_), Resumption::Approve | Resumption::Continue) | (None, _) => {}
        }
        calls
    }
}

/// Way in which a suspended cell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resumption {
    /// The call that it waits for is made.
    Approve,
    /// The call that it waits for fails.
    Deny,
    /// It was stopped after the decision, and is run again.
    Continue,
}

/// Connection to the process that keeps sessions.
///
/// All methods return an error if the process refuses the request or is gone.
#[expect(clippy::missing_errors_doc, reason = "the trait describes them")]
pub trait SessionClient {
    /// Creates a session with the language, grants, limits and packages of an admitted job, and returns its id.
    fn create(&mut self, job: Job, container: SessionContainer) -> Result<String, RunnerError>;

    /// Runs a cell.
    fn exec(&mut self, id: &str, cell: Cell, io: CellIo<'_>) -> Result<RunReport, RunnerError>;

    /// Runs a suspended cell again, with a decision about the call at this position that it waits for, and goes on.
    fn resume(
        &mut self,
        id: &str,
        position: u64,
        resumption: Resumption,
        io: CellIo<'_>,
    ) -> Result<RunReport, RunnerError>;

    /// Returns the suspended cell of a session.
    fn suspended(&mut self, id: &str) -> Result<SuspendedCell, RunnerError>;

    /// Ends a suspended cell, whose last call has this position. Without one, only a cell whose record is damaged is ended. The session has
    /// the state before it.
    fn discard(&mut self, id: &str, position: Option<u64>) -> Result<(), RunnerError>;

    /// Creates sessions with the state of another one, and returns their ids.
    fn fork(&mut self, id: &str, count: u32) -> Result<Vec<String>, RunnerError>;

    /// Saves the state of a session under a name.
    fn checkpoint(&mut self, id: &str, name: &str) -> Result<(), RunnerError>;

    /// Returns to the state of a checkpoint.
    fn restore(&mut self, id: &str, name: &str) -> Result<(), RunnerError>;

    /// Writes the state of a session, or that of a checkpoint, to a file.
    fn export(&mut self, id: &str, name: Option<&str>, to: &mut dyn Write) -> Result<(), RunnerError>;

    /// Creates a session from a file, with the language, grants, limits and packages of an admitted job, and returns its id.
    fn import(&mut self, job: Job, from: &mut dyn Read) -> Result<String, RunnerError>;

    /// Gives a session values of its secrets, which are kept in memory alone.
    fn give_secrets(&mut self, id: &str, values: Vec<(SecretName, SecretValue)>) -> Result<(), RunnerError>;

    /// Saves the state of a session, and releases its interpreter.
    fn park(&mut self, id: &str) -> Result<(), RunnerError>;

    /// Ends a session and removes its checkpoints.
    fn stop(&mut self, id: &str) -> Result<(), RunnerError>;

    /// Returns facts about all sessions, the oldest first.
    fn list(&mut self) -> Result<Vec<SessionInfo>, RunnerError>;

    /// Asks the process to save all sessions and to end.
    fn end(&mut self) -> Result<(), RunnerError>;
}

/// The control on systems without sessions.
#[derive(Debug, Clone, Copy)]
pub struct NoSessions;

impl SessionControl for NoSessions {
    fn connect(&self) -> Result<Box<dyn SessionClient>, RunnerError> {
        Err(RunnerError::new(ResultKind::InvalidRequest, "sessions need Linux".to_owned()))
    }

    fn connect_if_running(&self) -> Result<Option<Box<dyn SessionClient>>, RunnerError> {
        self.connect().map(Some)
    }
}

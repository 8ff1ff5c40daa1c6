//! Messages between a client and the process that keeps the sessions.

use codebox_core::{
    Job, RunReport, SecretName, SecretValue, SessionContainer, SessionInfo, ToolDescription, ToolFailure,
};
use codebox_runner::{Cell, Resumption, SuspendedCell};
use codebox_service::Audit;
use codebox_worker::Failure;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Version of the messages, which is that of codebox.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first message of a client. Its form is the same in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: String,
}

/// Maximum size of a cell with its standard input and its files in bytes.
pub(crate) const MAX_CELL: usize = 24 << 20;

/// Maximum size of the result of a tool in bytes.
pub(crate) const MAX_TOOL_RESULT: usize = 16 << 20;

/// Message of a client. The next one follows after the last answer; only the cancellation, results of tools and pieces are sent before.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Sets the use of the audit log by the later requests of this client. No answer follows.
    UseAudit(Audit),
    /// Creates a session with the language, grants, limits and packages of a job.
    Create(Box<Job>, SessionContainer),
    /// Runs a cell, which may call these tools of the client. With data of the client, the cell is suspended at a call that needs an
    /// approval, and the data are kept for the client that resumes it.
    Exec { id: String, cell: Box<Cell>, tools: Option<Vec<ToolDescription>>, suspends: Option<String> },
    /// Requests the data of the client whose cell is suspended.
    Suspended(String),
    /// Runs a suspended cell again, up to the call that it waits for, and on. `position` is that of the call that was decided.
    Resume { id: String, position: u64, resumption: Resumption, tools: Option<Vec<ToolDescription>> },
    /// Ends a suspended cell.
    Discard(String, Option<u64>),
    /// Result of the call of a tool with this number.
    ToolResult(u64, Result<ByteBuf, ToolFailure>),
    /// Cancels the cell of this client.
    Cancel,
    /// Creates sessions with the state of another one.
    Fork { id: String, count: u32 },
    /// Saves the state of a session under a name, in place of an earlier one of this name.
    Checkpoint { id: String, name: String },
    /// Returns to the state of a checkpoint.
    Restore { id: String, name: String },
    /// Writes the state of a session, or that of a checkpoint, to a file. The answers are its pieces as output 0, and [`Answer::Done`].
    Export { id: String, name: Option<String> },
    /// Creates a session from a file, with the language, grants, limits and packages of a job. The pieces of the file follow.
    Import(Box<Job>),
    /// Piece of a file; the last one is empty.
    Piece(ByteBuf),
    /// Gives a session values of its secrets, which are not recorded.
    GiveSecrets { id: String, values: Vec<(SecretName, SecretValue)> },
    /// Releases the interpreter of a session.
    Park(String),
    /// Ends a session and removes its checkpoints.
    Stop(String),
    /// Lists all sessions.
    List,
    /// Saves all sessions and ends the process.
    End,
}

/// Answer to a client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// Output of stream 0 or 1 of the cell.
    Output(u8, ByteBuf),
    /// The cell calls a tool with an input as JSON text. The number is that of the call. A call that was approved is made without a question.
    ToolCall { number: u64, name: String, input: ByteBuf, is_approved: bool },
    /// The cell has ended.
    Ended(Box<RunReport>),
    /// Ids of the created sessions.
    Created(Vec<String>),
    /// The suspended cell.
    Suspended(SuspendedCell),
    /// All sessions, the oldest first.
    Sessions(Vec<SessionInfo>),
    /// The request was performed.
    Done,
    /// The request failed.
    Failed(Failure),
}

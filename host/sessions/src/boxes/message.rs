//! Messages between a client and the process of a box.

use codebox_core::{BoxCommand, BoxInfo, RunReport, ToolName, WindowSize};
use codebox_worker::Failure;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// Number of pieces of input that a client may send before the process has taken the first one.
pub(super) const INPUT_WINDOW: usize = 8;

/// Maximum size of a piece of input in bytes.
pub(super) const MAX_INPUT: usize = 32 << 10;

/// The first message of a client, with the version of codebox. Its form is the same in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BoxHello {
    pub version: String,
}

/// Message of a client. A connection serves one request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum BoxRequest {
    /// Runs a command, which may be the program of a tool. With `is_whole`, the limits on output do not apply.
    Exec { command: BoxCommand, is_whole: bool, tool: Option<ToolName> },
    /// Piece of the standard input of the command; an empty one is its end.
    Input(ByteBuf),
    /// Signal for the command.
    Signal(u8),
    /// New size of the terminal of the command.
    Resize(WindowSize),
    /// Requests facts about the box.
    Info,
    /// Ends the box.
    Stop,
}

/// Answer to a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum BoxAnswer {
    /// Output of stream 0 or 1 of the command.
    Output(u8, ByteBuf),
    /// The process has taken a piece of input.
    InputTaken,
    /// The command has ended.
    Ended(Box<RunReport>),
    /// Facts about the box.
    Info(Box<BoxInfo>),
    /// The request was performed.
    Done,
    /// The request failed.
    Failed(Failure),
}

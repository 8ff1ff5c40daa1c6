//! Boxes that other processes keep.

use std::io::Read;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use codebox_core::{
    BoxCommand, BoxInfo, BoxSettings, CancelToken, CommandInput, Job, ResultKind, RunReport, RunnerError,
    SessionContainer, ToolName,
};
use serde::{Deserialize, Serialize};

use super::Shaping;

/// A box to start, in a process of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoxStart {
    /// Admitted job with the grants and limits of the box.
    pub job: Job,
    /// Image and engine.
    pub container: SessionContainer,
    /// Settings, with a name.
    pub settings: BoxSettings,
    /// Time without a command after which the box ends; `None` for no end.
    pub idle: Option<Duration>,
    /// Process with which the box ends.
    pub owner: Option<u32>,
}

/// Input, output and cancellation of a command in a box that another process keeps.
pub struct BoxIo<'c> {
    /// Standard input, which a thread reads; `None` for an empty one.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Signals, and sizes of the terminal.
    pub control: Option<Receiver<CommandInput>>,
    /// Kills the process group of the command.
    pub cancel: &'c CancelToken,
    /// Use of the limits of the box on output.
    pub shaping: Shaping,
    /// Tool that the command implements, which the audit log names.
    pub tool: Option<ToolName>,
    /// Receives the output, 0 for standard output and 1 for standard error.
    pub output: &'c mut dyn FnMut(u8, &[u8]),
}

/// Entry of the log of a box: a command, or a call of one with a shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxLogEntry {
    /// Time of the end, in milliseconds since 1970.
    pub time_ms: u64,
    /// True for a call through a shim.
    #[serde(default)]
    pub is_shim: bool,
    /// Command line. Words that look like secrets are masked.
    pub argv: Vec<String>,
    /// Exit status; -1 for a call whose caller runs the command itself.
    pub status: i32,
    /// Wall-clock time in milliseconds.
    pub wall_ms: u64,
    /// Files with the whole output of streams that were cut: of this machine for commands, and of the box for calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spilled: Vec<String>,
}

/// Access to the processes that keep boxes.
pub trait BoxControl {
    /// Starts a process that keeps a box, and returns when the box accepts commands.
    ///
    /// # Errors
    /// Returns an error if there is a box of this name, or if it cannot be started.
    fn start(&self, start: &BoxStart) -> Result<BoxInfo, RunnerError>;

    /// Returns facts about all boxes, the oldest first.
    ///
    /// # Errors
    /// Returns an error if they cannot be listed.
    fn list(&self) -> Result<Vec<BoxInfo>, RunnerError>;

    /// Runs a command in a box.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if it has ended.
    fn exec(&self, name: &str, command: BoxCommand, io: BoxIo<'_>) -> Result<RunReport, RunnerError>;

    /// Returns the log of a box, the oldest entry first.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if its log cannot be read.
    fn log(&self, name: &str) -> Result<Vec<BoxLogEntry>, RunnerError>;

    /// Ends a box and removes its container, its log and its files.
    ///
    /// # Errors
    /// Returns an error if there is no such box, or if it cannot be removed.
    fn stop(&self, name: &str) -> Result<(), RunnerError>;
}

/// The control on systems without processes that keep boxes.
#[derive(Debug, Clone, Copy)]
pub struct NoBoxes;

impl NoBoxes {
    fn error() -> RunnerError {
        RunnerError::new(ResultKind::InvalidRequest, "boxes need Linux".to_owned())
    }
}

impl BoxControl for NoBoxes {
    fn start(&self, _start: &BoxStart) -> Result<BoxInfo, RunnerError> {
        Err(Self::error())
    }

    fn list(&self) -> Result<Vec<BoxInfo>, RunnerError> {
        Ok(Vec::new())
    }

    fn exec(&self, _name: &str, _command: BoxCommand, _io: BoxIo<'_>) -> Result<RunReport, RunnerError> {
        Err(Self::error())
    }

    fn log(&self, _name: &str) -> Result<Vec<BoxLogEntry>, RunnerError> {
        Err(Self::error())
    }

    fn stop(&self, _name: &str) -> Result<(), RunnerError> {
        Err(Self::error())
    }
}

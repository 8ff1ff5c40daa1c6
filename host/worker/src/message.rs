//! Messages between the two processes.

use std::path::PathBuf;

use codebox_core::{
    BackendError, Effects, InputMode, InstanceSpec, Job, ResultKind, RunReport, RunnerError, SandboxLayer, Shown,
    ToolDescription, ToolFailure,
};
use serde::{Deserialize, Serialize};

/// Version of the messages, which is that of codebox.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The first message. Its form is the same in all versions.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub version: String,
}

/// Message to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Opens a guest.
    Open(Box<InstanceSpec>),
    /// Runs a job in the guest. A guest of a session runs several, one after the other.
    Exec(Box<Exec>),
    /// Result of the tool that the guest has called.
    ToolResult(Result<serde_bytes::ByteBuf, ToolFailure>),
    /// Saves the state of a session between two jobs in a new directory, which can share this number of files with the state before.
    Checkpoint(PathBuf, usize),
    /// Input that the worker has requested; no bytes at its end, `None` if it cannot be read.
    Input(Option<serde_bytes::ByteBuf>),
    /// Cancels the job.
    Cancel,
}

/// Job with the tools that its guest may call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exec {
    pub job: Job,
    pub tools: Option<Vec<ToolDescription>>,
    /// True if results are shown as they are produced.
    pub shows_results: bool,
    /// True if the guest reads from a terminal.
    pub has_input_modes: bool,
}

/// Message of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The guest is open.
    Opened,
    /// The process is confined, and the program starts.
    Started(Vec<SandboxLayer>),
    /// Output of stream 0 or 1.
    Output(u8, serde_bytes::ByteBuf),
    /// Rich result of the guest, or the removal of what it has shown.
    Shown(Box<Shown>),
    /// The guest changes the mode of the terminal that it reads from.
    InputMode(InputMode),
    /// The guest reads its input.
    InputRequest,
    /// The guest, which has had these effects, calls a tool with an input as JSON text, and waits for the result.
    ToolCall(String, serde_bytes::ByteBuf, Effects),
    /// The job has ended.
    Ended(Box<RunReport>),
    /// The state of the session is saved, and shares this number of files, or cannot be saved for this reason.
    Saved(Result<usize, Failure>),
    /// The worker cannot open the guest, or cannot determine what it did. The output so far has been sent.
    Failed(Failure),
}

/// Error in another process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    kind: ResultKind,
    message: String,
    fix: Option<String>,
}

impl From<BackendError> for Failure {
    fn from(mut error: BackendError) -> Self {
        if let BackendError::DuringJob { error: cause, .. } = error {
            error = *cause;
        }
        Self::from(RunnerError::from(error))
    }
}

impl From<RunnerError> for Failure {
    fn from(error: RunnerError) -> Self {
        let (message, fix) = (error.message().to_owned(), error.fix().map(str::to_owned));
        Self { kind: error.kind(), message, fix }
    }
}

/// Maximum length of a message of a worker in bytes.
const MAX_LINE: usize = 4096;

/// Returns a worker's text as one line, without control characters.
pub(crate) fn line(text: &str) -> String {
    let shown = &text[..text.floor_char_boundary(MAX_LINE)];
    shown.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

impl From<Failure> for RunnerError {
    /// Converts the error of a process that is trusted.
    fn from(Failure { kind, message, fix }: Failure) -> Self {
        let error = Self::new(kind, message);
        match fix {
            Some(fix) => error.with_fix(fix),
            None => error,
        }
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        let Failure { kind, message, fix } = failure;
        Self::Remote { kind, message: line(&message), fix: fix.as_deref().map(line) }
    }
}

impl Failure {
    /// Returns the error of a session that cannot be saved. The worker is not trusted: the error has no remedy, and is that of a
    /// request, of the guest, which is gone then, or of codebox.
    pub(crate) fn about_session(self) -> BackendError {
        match self.kind {
            ResultKind::InvalidRequest | ResultKind::EngineLost => {
                BackendError::Remote { kind: self.kind, message: line(&self.message), fix: None }
            }
            _ => self.after_start(),
        }
    }

    /// Returns the error of a worker whose program has started, and which is not trusted: it may be that of a full disk or of
    /// codebox itself, and has no remedy.
    pub(crate) fn after_start(self) -> BackendError {
        let kind = match self.kind {
            ResultKind::Busy => ResultKind::Busy,
            _ => ResultKind::InternalError,
        };
        BackendError::Remote { kind, message: line(&self.message), fix: None }
    }
}

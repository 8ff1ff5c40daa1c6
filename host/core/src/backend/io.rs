use std::fmt;
use std::io::{Read, Result};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::CancelToken;
use crate::backend::BoxFuture;
use crate::tools::RunTools;
use crate::{MimeBundle, WindowSize};

/// Standard streams of a running guest, and the token that stops it.
///
/// Sinks receive the output as the guest produces it; the report contains it too.
#[derive(Default)]
pub struct ExecIo {
    /// Input of the guest if the job's input is [`Stdin::Streamed`](crate::Stdin::Streamed).
    ///
    /// The reader is called on a thread that may block, and only when the guest requests more input.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Sink for standard output.
    pub stdout: Option<Box<dyn OutputSink>>,
    /// Sink for standard error.
    pub stderr: Option<Box<dyn OutputSink>>,
    /// Receiver of the rich results of a cell, in their order with the output. The report contains them too.
    pub results: Option<Box<dyn ResultSink>>,
    /// Modes of the caller's terminal, for a program that reads from it; `None` if it has none.
    pub input_modes: Option<Arc<dyn InputModes>>,
    /// Sizes of the caller's terminal after it has changed, for a job with a terminal. Programs in WebAssembly see the first size.
    pub resizes: Option<Box<dyn Resizes>>,
    /// Token that stops the run.
    pub cancel: CancelToken,
    /// Tools that the guest may call; `None` if it has none.
    pub tools: Option<RunTools>,
    /// True if the thread that polls the run has nothing else to do until the run ends. Otherwise, a backend whose guests
    /// compute on the polling thread uses another thread.
    pub has_own_thread: bool,
}

impl ExecIo {
    /// Returns streams with no input and no sinks.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

impl fmt::Debug for ExecIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stdin, stdout, stderr, results, input_modes, resizes, cancel, tools, has_own_thread } = self;
        f.debug_struct("ExecIo")
            .field("stdin", &stdin.is_some())
            .field("stdout", &stdout.is_some())
            .field("stderr", &stderr.is_some())
            .field("results", &results.is_some())
            .field("input_modes", &input_modes.is_some())
            .field("resizes", &resizes.is_some())
            .field("cancel", cancel)
            .field("tools", &tools.is_some())
            .field("has_own_thread", has_own_thread)
            .finish()
    }
}

/// Receiver of output as it is produced.
///
/// Calls for one stream are in order and never concurrent. An error, such as a closed pipe, ends the streaming of that
/// stream but not the run.
pub trait OutputSink: Send {
    /// Writes all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

/// Part of what a program shows, for the receiver of its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Shown {
    /// A rich result.
    Result(MimeBundle),
    /// No result: what the cell has shown and written so far is removed.
    Clear {
        /// True if it is removed only when something else follows.
        waits: bool,
    },
}

/// Receiver of rich results as they are produced.
///
/// Calls are in the order in which the guest has written its output and its results, and never concurrent with one another or with those of
/// the sinks of the same run.
pub trait ResultSink: Send {
    /// Receives a part.
    fn show(&mut self, shown: Shown);
}

/// Way in which a terminal passes keys to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputMode {
    /// Lines that the terminal edits and shows.
    Lines,
    /// Lines that the terminal does not show, such as passwords.
    Hidden,
    /// Each key as it is pressed, which the terminal does not show. Those that end or stop codebox keep their meaning.
    Keys,
}

/// Modes of the input of a program, and the size of its terminal.
pub trait InputModes: Send + Sync {
    /// Changes the mode until the next call, or until the run ends.
    fn set(&self, mode: InputMode);

    /// Returns the current size of the terminal; `None` if only the size at the start of the run is known.
    fn size(&self) -> Option<WindowSize> {
        None
    }
}

/// Changes of the size of a terminal.
pub trait Resizes: Send {
    /// Waits for the next size. The wait can be cancelled and resumed.
    fn next(&mut self) -> BoxFuture<'_, WindowSize>;
}

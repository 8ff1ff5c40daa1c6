use std::fmt;
use std::io::{Read, Result, Write};

use super::CancelToken;

/// Where a guest's standard streams go while it runs, and how to stop it.
///
/// The report has the output too; sinks see it as it comes.
#[derive(Default)]
pub struct ExecIo {
    /// What the guest reads when the job's input is [`Stdin::Streamed`](crate::Stdin::Streamed).
    ///
    /// Read from a thread that may block, and only as the guest asks for more.
    pub stdin: Option<Box<dyn Read + Send>>,
    /// Sees standard output.
    pub stdout: Option<Box<dyn OutputSink>>,
    /// Sees standard error.
    pub stderr: Option<Box<dyn OutputSink>>,
    /// Stops the run.
    pub cancel: CancelToken,
}

impl ExecIo {
    /// No input, nobody watching.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

impl fmt::Debug for ExecIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stdin, stdout, stderr, cancel } = self;
        f.debug_struct("ExecIo")
            .field("stdin", &stdin.is_some())
            .field("stdout", &stdout.is_some())
            .field("stderr", &stderr.is_some())
            .field("cancel", cancel)
            .finish()
    }
}

/// Sees output as it comes.
///
/// Called in order and never at the same time for one stream. An error (say, a closed pipe) ends the
/// streaming of that stream, not the run.
pub trait OutputSink: Send {
    /// Takes all of `bytes`.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

/// Passes output to a writer and flushes it after every piece.
#[derive(Debug)]
pub struct WriteSink<W>(pub W);

impl<W: Write + Send> OutputSink for WriteSink<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }
}

//! Standard streams of the guest: live output or output for the report only, and input on demand.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Arc, OnceLock};

use codebox_core::{CancelToken, ExecIo, OutputSink, exit};

use crate::exit::PIPE;
use crate::messages::guest_wrote;
use crate::terminal_filter::TerminalFilter;

/// Streams of one run, and the errors that occurred on them.
pub(crate) struct Streams {
    /// Streams for the backend.
    pub io: ExecIo,
    write_error: WriteErrorSlot,
}

/// State of standard output while a run uses it.
#[derive(Clone)]
pub(crate) struct OutputState(WriteErrorSlot);

impl OutputState {
    /// Returns the exit status of this process if output could not be written so far.
    pub(crate) fn failure_status(&self) -> Option<u8> {
        let error = self.0.get()?;
        Some(if error.kind() == io::ErrorKind::BrokenPipe { PIPE } else { exit::FAILURE })
    }
}

/// Error that prevented output from reaching standard output, if there was one.
type WriteErrorSlot = Arc<OnceLock<io::Error>>;

impl Streams {
    /// Creates streams that print output as it is written, and read input on demand.
    pub(crate) fn live() -> Self {
        Self::live_until(CancelToken::new())
    }

    /// As [`live`](Self::live), with a token that is cancelled if standard output cannot be written.
    pub(crate) fn live_until(cancel: CancelToken) -> Self {
        let write_error = WriteErrorSlot::default();
        let stdout = Stream::new(io::stdout(), Rendering::of(&io::stdout()))
            .with_error_report(Arc::clone(&write_error), cancel.clone());
        let stdout: Box<dyn OutputSink> = match share_a_destination() {
            true => Box::new(MessageStream(stdout)),
            false => Box::new(stdout),
        };
        let stderr: Box<dyn OutputSink> =
            Box::new(MessageStream(Stream::new(io::stderr(), Rendering::of(&io::stderr()))));
        let (stdout, stderr) = (Some(stdout), Some(stderr));
        let io = ExecIo { stdin: Some(stdin()), stdout, stderr, cancel, ..ExecIo::none() };
        Self { io, write_error }
    }

    /// Creates streams whose output is only in the report.
    pub(crate) fn collected() -> Self {
        let io = ExecIo { stdin: Some(stdin()), ..ExecIo::none() };
        Self { io, write_error: WriteErrorSlot::default() }
    }

    /// Returns the state of standard output.
    pub(crate) fn output_state(&self) -> OutputState {
        OutputState(Arc::clone(&self.write_error))
    }

    /// Writes the held part of unfinished output, and returns the result for standard output.
    pub(crate) fn finish(self) -> Delivery {
        let Self { io, write_error } = self;
        // Dropping a stream writes the rest of its output.
        drop(io);
        match write_error.get() {
            None => Delivery::Complete,
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Delivery::ReaderClosed,
            Some(error) => Delivery::Failed(copy(error)),
        }
    }
}

/// Returns true if standard output and standard error are the terminal, or one file or pipe.
fn share_a_destination() -> bool {
    if io::stdout().is_terminal() && io::stderr().is_terminal() {
        return true;
    }
    #[cfg(unix)]
    if let (Ok(out), Ok(err)) = (rustix::fs::fstat(io::stdout()), rustix::fs::fstat(io::stderr())) {
        return (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino);
    }
    false
}

/// Result of writing the guest's standard output.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// All output was written.
    Complete,
    /// The reader closed the stream.
    ReaderClosed,
    /// The output could not be written, for example because the disk is full.
    Failed(io::Error),
}

/// Copies an error, because [`io::Error`] does not implement `Clone`.
fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

/// Returns standard input, which is read only when the guest reads.
fn stdin() -> Box<dyn Read + Send> {
    Box::new(io::stdin())
}

/// Rendering of a guest's output.
#[derive(Debug)]
enum Rendering {
    /// Unchanged bytes.
    Raw,
    /// Text without control sequences that a terminal executes.
    TerminalFilter(TerminalFilter),
}

impl Rendering {
    fn of(out: &impl IsTerminal) -> Self {
        if out.is_terminal() { Self::TerminalFilter(TerminalFilter::default()) } else { Self::Raw }
    }
}

/// An output stream of the guest, written to a stream of this process.
struct Stream<W: Write + Send> {
    out: W,
    rendering: Rendering,
    /// Record of the first write error, and token of the run, which is cancelled if its output has no reader, as with
    /// `SIGPIPE`.
    error_report: Option<(WriteErrorSlot, CancelToken)>,
    scratch: Vec<u8>,
}

impl<W: Write + Send> Stream<W> {
    const fn new(out: W, rendering: Rendering) -> Self {
        Self { out, rendering, error_report: None, scratch: Vec::new() }
    }

    fn with_error_report(mut self, write_error: WriteErrorSlot, cancel: CancelToken) -> Self {
        self.error_report = Some((write_error, cancel));
        self
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()
    }
}

impl<W: Write + Send> OutputSink for Stream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = match &mut self.rendering {
            Rendering::Raw => self.put(bytes),
            Rendering::TerminalFilter(filter) => {
                let mut shown = std::mem::take(&mut self.scratch);
                shown.clear();
                filter.push(bytes, &mut shown);
                let written = self.put(&shown);
                self.scratch = shown;
                written
            }
        };
        if let (Err(error), Some((write_error, cancel))) = (&written, &self.error_report) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                cancel.cancel();
            }
            // Only the first error is recorded.
            let _later = write_error.set(copy(error));
        }
        written
    }
}

/// Output of the guest on a stream that messages of codebox share: standard error, and standard output if both are the terminal.
struct MessageStream<W: Write + Send>(Stream<W>);

impl<W: Write + Send> OutputSink for MessageStream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        guest_wrote(bytes);
        self.0.write(bytes)
    }
}

impl<W: Write + Send> Drop for Stream<W> {
    fn drop(&mut self) {
        if let Rendering::TerminalFilter(filter) = &mut self.rendering {
            let mut shown = Vec::new();
            filter.finish(&mut shown);
            // The stream has ended, so an error cannot be reported.
            let _lost = self.put(&shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FailingWriter(io::ErrorKind);

    impl Write for FailingWriter {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the result of a run whose output fails with this error, and its cancel token.
    fn after(failure: io::ErrorKind) -> (Delivery, CancelToken) {
        let cancel = CancelToken::new();
        let write_error = WriteErrorSlot::default();
        let stream = Stream::new(FailingWriter(failure), Rendering::Raw);
        let mut stream = stream.with_error_report(Arc::clone(&write_error), cancel.clone());
        assert!(stream.write(b"x").is_err());
        (Streams { io: ExecIo::none(), write_error }.finish(), cancel)
    }

    #[test]
    fn closed_reader_cancels_run() {
        let (delivery, cancel) = after(io::ErrorKind::BrokenPipe);
        assert!(matches!(delivery, Delivery::ReaderClosed));
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn reports_lost_output() {
        let (delivery, cancel) = after(io::ErrorKind::StorageFull);
        assert!(matches!(delivery, Delivery::Failed(error) if error.kind() == io::ErrorKind::StorageFull));
        assert!(!cancel.is_cancelled());
    }

    #[test]
    fn filters_output_for_terminals_only() {
        let mut raw = Vec::new();
        let hostile = b"\x1b]0;t\x07\xff\x1b[1mx";
        Stream::new(&mut raw, Rendering::Raw).write(hostile).expect("a vector takes all");
        assert_eq!(raw, hostile);

        let mut shown = Vec::new();
        Stream::new(&mut shown, Rendering::TerminalFilter(TerminalFilter::default()))
            .write(hostile)
            .expect("a vector takes all");
        assert_eq!(shown, "␛]0;t␇\u{fffd}\u{1b}[1mx\u{1b}[0m".as_bytes());
    }
}

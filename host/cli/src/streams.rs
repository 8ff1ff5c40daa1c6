//! The guest's streams: where its output goes as it comes, and where its input is from.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::{CancelToken, ExecIo, OutputSink};

use crate::inert::Inert;

/// The streams of one run, and what became of them.
pub(crate) struct Streams {
    /// For the backend.
    pub io: ExecIo,
    closed: Arc<AtomicBool>,
}

impl Streams {
    /// Output as it comes, input as it is asked for.
    pub(crate) fn live() -> Self {
        let cancel = CancelToken::new();
        let closed = Arc::new(AtomicBool::new(false));
        let stdout =
            Stream::new(io::stdout(), Rendering::of(&io::stdout())).on_close(Arc::clone(&closed), cancel.clone());
        let stderr = Stream::new(io::stderr(), Rendering::of(&io::stderr()));
        let io =
            ExecIo { stdin: Some(stdin()), stdout: Some(Box::new(stdout)), stderr: Some(Box::new(stderr)), cancel };
        Self { io, closed }
    }

    /// Output only in the report.
    pub(crate) fn collected() -> Self {
        let io = ExecIo { stdin: Some(stdin()), ..ExecIo::none() };
        let closed = Arc::new(AtomicBool::new(false));
        Self { io, closed }
    }

    /// Writes what was kept back of unfinished output, and says whether the reader of stdout went away.
    pub(crate) fn finish(self) -> Reader {
        let Self { io, closed } = self;
        // Dropping a stream finishes it.
        drop(io);
        if closed.load(Ordering::Acquire) { Reader::Gone } else { Reader::There }
    }
}

/// Whether somebody still reads standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    There,
    Gone,
}

/// Standard input; nothing is read before the guest reads.
fn stdin() -> Box<dyn Read + Send> {
    Box::new(io::stdin())
}

/// How a guest's output is shown.
#[derive(Debug)]
enum Rendering {
    /// Byte for byte.
    Raw,
    /// As text that a terminal does not obey.
    Inert(Inert),
}

impl Rendering {
    fn of(out: &impl IsTerminal) -> Self {
        if out.is_terminal() { Self::Inert(Inert::default()) } else { Self::Raw }
    }
}

/// One output stream of the guest, shown on one of ours.
struct Stream<W: Write + Send> {
    out: W,
    rendering: Rendering,
    /// What to do when the reader goes away: a run whose output nobody reads ends, as under `SIGPIPE`.
    reader: Option<(Arc<AtomicBool>, CancelToken)>,
    scratch: Vec<u8>,
}

impl<W: Write + Send> Stream<W> {
    const fn new(out: W, rendering: Rendering) -> Self {
        Self { out, rendering, reader: None, scratch: Vec::new() }
    }

    fn on_close(mut self, closed: Arc<AtomicBool>, cancel: CancelToken) -> Self {
        self.reader = Some((closed, cancel));
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
            Rendering::Inert(filter) => {
                let mut shown = std::mem::take(&mut self.scratch);
                shown.clear();
                filter.push(bytes, &mut shown);
                let written = self.put(&shown);
                self.scratch = shown;
                written
            }
        };
        if let (Err(error), Some((closed, cancel))) = (&written, &self.reader)
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            closed.store(true, Ordering::Release);
            cancel.cancel();
        }
        written
    }
}

impl<W: Write + Send> Drop for Stream<W> {
    fn drop(&mut self) {
        if let Rendering::Inert(filter) = &mut self.rendering {
            let mut shown = Vec::new();
            filter.finish(&mut shown);
            // The stream is over; nobody is left to tell.
            let _lost = self.put(&shown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_leaves_ends_the_run() {
        let (closed, cancel) = (Arc::new(AtomicBool::new(false)), CancelToken::new());
        let mut stream = Stream::new(Closed, Rendering::Raw).on_close(Arc::clone(&closed), cancel.clone());
        assert!(stream.write(b"x").is_err());
        assert!(closed.load(Ordering::Acquire) && cancel.is_cancelled());
    }

    #[test]
    fn pipes_get_bytes_and_terminals_get_text() {
        let mut raw = Vec::new();
        let hostile = b"\x1b]0;t\x07\xff\x1b[1mx";
        Stream::new(&mut raw, Rendering::Raw).write(hostile).expect("a vector takes all");
        assert_eq!(raw, hostile);

        let mut shown = Vec::new();
        Stream::new(&mut shown, Rendering::Inert(Inert::default())).write(hostile).expect("a vector takes all");
        assert_eq!(shown, "␛]0;t␇\u{fffd}\u{1b}[1mx\u{1b}[0m".as_bytes());
    }
}

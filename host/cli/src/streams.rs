//! The guest's streams: where its output goes as it comes, and where its input is from.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use codebox_core::{CancelToken, ExecIo, OutputSink};
use codebox_streams::Revocable;

use crate::inert::Inert;

/// How long somebody who does not read standard error is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// The streams of one run, and what became of them.
pub(crate) struct Streams {
    /// For the backend.
    pub io: ExecIo,
    lost: Lost,
}

/// Why output did not reach standard output, if it did not.
type Lost = Arc<OnceLock<io::Error>>;

impl Streams {
    /// Output as it comes, input as it is asked for.
    pub(crate) fn live() -> Self {
        let cancel = CancelToken::new();
        let lost = Lost::default();
        let stdout = Stream::new(io::stdout(), Rendering::of(&io::stdout())).telling(Arc::clone(&lost), cancel.clone());
        let stderr = Stream::new(io::stderr(), Rendering::of(&io::stderr()));
        let io =
            ExecIo { stdin: Some(stdin()), stdout: Some(Box::new(stdout)), stderr: Some(Box::new(stderr)), cancel };
        Self { io, lost }
    }

    /// Output only in the report.
    pub(crate) fn collected() -> Self {
        let io = ExecIo { stdin: Some(stdin()), ..ExecIo::none() };
        Self { io, lost: Lost::default() }
    }

    /// Writes what was kept back of unfinished output, and says whether all of stdout arrived.
    pub(crate) fn finish(self) -> Delivery {
        let Self { io, lost } = self;
        // Dropping a stream finishes it.
        drop(io);
        match lost.get() {
            None => Delivery::Whole,
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => Delivery::ReaderGone,
            Some(error) => Delivery::Failed(copy(error)),
        }
    }
}

/// The run stands: its last words are said, to somebody who does not take too long to read them.
pub(crate) fn say_last_words(revocable: Revocable) {
    let (say, said) = mpsc::channel();
    revocable.finish(move || {
        let _ = say.send(());
    });
    let _ = said.recv_timeout(PATIENCE);
}

/// What became of the guest's standard output.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// All of it arrived.
    Whole,
    /// Nobody reads it any more.
    ReaderGone,
    /// It could not be written: the disk is full, say.
    Failed(io::Error),
}

/// The same error once more; the type itself cannot be cloned.
fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
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
    /// Whom to tell when writing fails. A run whose output nobody reads ends, as under `SIGPIPE`.
    teller: Option<(Lost, CancelToken)>,
    scratch: Vec<u8>,
}

impl<W: Write + Send> Stream<W> {
    const fn new(out: W, rendering: Rendering) -> Self {
        Self { out, rendering, teller: None, scratch: Vec::new() }
    }

    fn telling(mut self, lost: Lost, cancel: CancelToken) -> Self {
        self.teller = Some((lost, cancel));
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
        if let (Err(error), Some((lost, cancel))) = (&written, &self.teller) {
            if error.kind() == io::ErrorKind::BrokenPipe {
                cancel.cancel();
            }
            // Only the first reason counts.
            let _later = lost.set(copy(error));
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

    struct Fails(io::ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What becomes of a run whose output goes to a writer that fails in this way.
    fn after(failure: io::ErrorKind) -> (Delivery, CancelToken) {
        let cancel = CancelToken::new();
        let lost = Lost::default();
        let stream = Stream::new(Fails(failure), Rendering::Raw);
        let mut stream = stream.telling(Arc::clone(&lost), cancel.clone());
        assert!(stream.write(b"x").is_err());
        (Streams { io: ExecIo::none(), lost }.finish(), cancel)
    }

    #[test]
    fn a_reader_that_leaves_ends_the_run() {
        let (delivery, cancel) = after(io::ErrorKind::BrokenPipe);
        assert!(matches!(delivery, Delivery::ReaderGone));
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn output_that_is_lost_is_told_of_after_the_run() {
        let (delivery, cancel) = after(io::ErrorKind::StorageFull);
        assert!(matches!(delivery, Delivery::Failed(error) if error.kind() == io::ErrorKind::StorageFull));
        assert!(!cancel.is_cancelled());
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

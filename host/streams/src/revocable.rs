//! Streams of a run that another run can replace.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

use codebox_core::{CancelToken, ExecIo, OutputSink};

use crate::continuing::{Continuing, Differs};
use crate::lingering::Lingering;
use crate::rewind::Rewind;

/// Record of a replaceable run: the input that it has read, and its standard error, which is held back.
pub struct Revocable {
    stdin: Option<Rewind>,
    stdout: Option<Lent>,
    stderr: Option<Lingering>,
    cancel: CancelToken,
}

/// Reason that a run cannot be replaced: it has read more input than is remembered.
pub const READ_TOO_MUCH: &str = "it has read more input than can be replayed";

/// Reason that a run cannot be replaced: its held standard error cannot be discarded because a stalled reader blocks
/// it.
pub const NOT_READ: &str = "its output is no longer read";

impl Revocable {
    /// Replaces the streams in `io` by those of a replaceable run, and returns the record of the run.
    #[must_use]
    pub fn of(io: &mut ExecIo) -> Self {
        let ExecIo { stdin, stdout, stderr, cancel } = io;
        let read = stdin.take().map(|inner| {
            let (reader, rewind) = Rewind::new(inner);
            *stdin = Some(reader);
            rewind
        });
        let lent = stdout.take().map(|inner| {
            let lent = Lent(Arc::new(Mutex::new(inner)));
            *stdout = Some(Box::new(lent.clone()));
            lent
        });
        let held = stderr.take().map(|inner| {
            let lingering = Lingering::new(inner);
            *stderr = Some(Box::new(lingering.clone()));
            lingering
        });
        Self { stdin: read, stdout: lent, stderr: held, cancel: cancel.clone() }
    }

    /// Returns the standard input that was read so far; `None` if it was too much to remember.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        self.stdin.as_ref().map_or_else(|| Some(Vec::new()), Rewind::read)
    }

    /// Holds standard error back until the run is either replaced or finished.
    pub fn freeze(&self) {
        self.stderr.iter().for_each(Lingering::freeze);
    }

    /// Discards the held standard error, because a run in another process replaces this one.
    pub fn discard(&self) {
        self.stderr.iter().for_each(|held| drop(held.discard()));
    }

    /// Returns the streams of a run in this process that replaces this one and continues after `printed`.
    ///
    /// # Errors
    /// Returns the reason if the run cannot be replaced.
    pub fn again(&self, printed: Vec<u8>) -> Result<ExecIo, &'static str> {
        let stdin = match &self.stdin {
            Some(rewind) => Some(rewind.again().ok_or(READ_TOO_MUCH)?),
            None => None,
        };
        let stderr = match &self.stderr {
            Some(held) => Some(held.discard().ok_or(NOT_READ)?),
            None => None,
        };
        let stdout = self.stdout.clone().map(|lent| Box::new(Continuing::new(Box::new(lent), printed)) as _);
        Ok(ExecIo { stdin, stdout, stderr, cancel: self.cancel.clone() })
    }

    /// Passes on the held standard error of a run that is not replaced, and then calls `done`.
    ///
    /// This takes as long as the reader takes. If the output cannot be passed on, `done` is dropped.
    pub fn finish(self, done: impl FnOnce() + Send + 'static) {
        match self.stderr {
            Some(held) => held.finish(done),
            None => done(),
        }
    }
}

/// Turns `io` into the streams of a run that replaces another, which had printed `stdout` and read `stdin`. Returns the
/// flag that is set if the second run prints something else.
pub fn go_on(io: &mut ExecIo, stdout: Vec<u8>, stdin: Vec<u8>) -> Differs {
    let mut differs = Differs::default();
    if let Some(inner) = io.stdout.take() {
        let sink = Continuing::new(inner, stdout);
        differs = sink.differs();
        io.stdout = Some(Box::new(sink));
    }
    if let Some(inner) = io.stdin.take() {
        io.stdin = Some(Box::new(io::Cursor::new(stdin).chain(inner)));
    }
    differs
}

/// A sink that several runs use in succession.
#[derive(Clone)]
struct Lent(Arc<Mutex<Box<dyn OutputSink>>>);

impl OutputSink for Lent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lingering::tests::Kept;

    #[test]
    fn a_second_run_goes_on_where_the_first_stopped() {
        let (out, err) = (Kept::default(), Kept::default());
        let mut io = ExecIo {
            stdin: Some(Box::new(io::Cursor::new(b"one\ntwo\n".to_vec()))),
            stdout: Some(Box::new(out.clone())),
            stderr: Some(Box::new(err.clone())),
            cancel: CancelToken::new(),
        };
        let revocable = Revocable::of(&mut io);
        let run = |io: &mut ExecIo, read: usize, words: &str, complaint: &str| {
            let mut line = vec![0; read];
            io.stdin.take().expect("it has one").read_exact(&mut line).expect("so much is there");
            io.stdout.take().expect("it has one").write(words.as_bytes()).expect("it takes all");
            io.stderr.take().expect("it has one").write(complaint.as_bytes()).expect("it takes all");
            line
        };
        assert_eq!(run(&mut io, 4, "a", "no threads"), b"one\n");
        revocable.freeze();
        let mut second = revocable.again(b"a".to_vec()).expect("nothing stands against it");
        assert_eq!(run(&mut second, 8, "ab", "fine"), b"one\ntwo\n");
        assert_eq!((out.text(), err.text()), ("ab".to_owned(), "fine".to_owned()));
    }

    #[test]
    fn what_was_read_beyond_memory_keeps_it_from_being_given_up() {
        let mut io = ExecIo { stdin: Some(Box::new(io::repeat(1))), ..ExecIo::none() };
        let revocable = Revocable::of(&mut io);
        io.stdin.take().expect("it has one").read_exact(&mut vec![0; 2 << 20]).expect("it never ends");
        assert_eq!(revocable.again(Vec::new()).err(), Some(READ_TOO_MUCH));
    }
}

//! Output of a run that is made once more: what was passed on already is not passed on again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::OutputSink;

/// A sink that leaves out what was printed before, as long as it is the same.
///
/// What differs is passed on from the start of its line, on a line of its own: half of one run's line and half of another's
/// would be a line that neither of them printed.
pub struct Continuing {
    inner: Box<dyn OutputSink>,
    before: Vec<u8>,
    at: usize,
    differs: Differs,
}

/// Whether a second run printed something else than the first.
#[derive(Debug, Clone, Default)]
pub struct Differs(Arc<AtomicBool>);

impl Differs {
    /// Whether it has by now.
    #[must_use]
    pub fn seen(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Continuing {
    /// Passes on what comes after `before`.
    #[must_use]
    pub fn new(inner: Box<dyn OutputSink>, before: Vec<u8>) -> Self {
        Self { inner, before, at: 0, differs: Differs::default() }
    }

    /// Tells, also later, whether what is written differs from what was.
    #[must_use]
    pub fn differs(&self) -> Differs {
        self.differs.clone()
    }

    /// The line that goes another way, as far as it was the same; from here on all is new.
    fn turn(&mut self) -> Vec<u8> {
        self.differs.0.store(true, Ordering::Release);
        let line = self.before[..self.at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let open = self.before.last().is_some_and(|byte| *byte != b'\n');
        let mut head = if open { vec![b'\n'] } else { Vec::new() };
        head.extend_from_slice(&self.before[line..self.at]);
        self.at = self.before.len();
        head
    }
}

impl OutputSink for Continuing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let expected = &self.before[self.at..];
        let same = expected.iter().zip(bytes).take_while(|(one, two)| one == two).count();
        self.at += same;
        let rest = &bytes[same..];
        if rest.is_empty() {
            return Ok(());
        }
        if self.at == self.before.len() {
            return self.inner.write(rest);
        }
        let mut line = self.turn();
        line.extend_from_slice(rest);
        self.inner.write(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lingering::tests::Kept;

    /// What is passed on of these pieces after that was printed, and whether they differ from it.
    fn after(before: &str, pieces: &[&str]) -> (String, bool) {
        let kept = Kept::default();
        let mut sink = Continuing::new(Box::new(kept.clone()), before.into());
        let differs = sink.differs();
        for piece in pieces {
            sink.write(piece.as_bytes()).expect("it takes all");
        }
        (kept.text(), differs.seen())
    }

    #[test]
    fn what_was_printed_is_not_printed_again() {
        for (before, pieces, expected) in [
            ("", &["a", "b"][..], "ab"),
            ("ab", &["a", "bc", "d"], "cd"),
            ("abc", &["ab"], ""),
            ("ab", &["ab", "ab"], "ab"),
            ("a\nbc\n", &["a\nb", "c\n"], ""),
        ] {
            assert_eq!(after(before, pieces), (expected.to_owned(), false), "{before:?} {pieces:?}");
        }
    }

    #[test]
    fn no_line_is_half_of_one_run_and_half_of_another() {
        for (before, pieces, expected) in [
            ("abc", &["aX", "bc"][..], "\naXbc"),
            ("one\n0.36\n", &["one\n0.", "17", "\nthr\n"], "0.17\nthr\n"),
            ("one\n0.36\ntwo\n", &["one\n0.17\n", "two\n"], "0.17\ntwo\n"),
            ("a\nb\n", &["x"], "x"),
            ("a\nb", &["a\n\n"], "\n\n"),
        ] {
            assert_eq!(after(before, pieces), (expected.to_owned(), true), "{before:?} {pieces:?}");
        }
    }
}

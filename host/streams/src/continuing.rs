//! Output of a repeated run, without the part that an earlier run has already printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::OutputSink;

/// A sink that drops output for as long as it equals the output of an earlier run.
///
/// Output that differs is passed on from the start of its line, and on a line of its own: a line that is half of one
/// run and half of the other would be a line that neither run printed.
pub struct Continuing {
    inner: Box<dyn OutputSink>,
    before: Vec<u8>,
    at: usize,
    differs: Differs,
}

/// Flag for a second run whose output differs from that of the first.
#[derive(Debug, Clone, Default)]
pub struct Differs(Arc<AtomicBool>);

impl Differs {
    /// Returns true if a difference has been found so far.
    #[must_use]
    pub fn seen(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Continuing {
    /// Creates a sink that passes on the output that follows `before`.
    #[must_use]
    pub fn new(inner: Box<dyn OutputSink>, before: Vec<u8>) -> Self {
        Self { inner, before, at: 0, differs: Differs::default() }
    }

    /// Returns the flag that is set as soon as the output differs from `before`.
    #[must_use]
    pub fn differs(&self) -> Differs {
        self.differs.clone()
    }

    /// Records that the output differs, and returns the start of the current line, up to the first different byte.
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

    /// Returns the output that is passed on for these pieces after `before`, and true if they differ from `before`.
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

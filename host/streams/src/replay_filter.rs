//! Output of a repeated run, without the part that an earlier run has already printed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use codebox_core::OutputSink;

/// A sink that drops output for as long as it equals the output of an earlier run.
///
/// Output that differs is passed on from the start of its line, and on a line of its own: a line that is half of one
/// run and half of the other would be a line that neither run printed.
pub(crate) struct ReplayFilter {
    inner: Box<dyn OutputSink>,
    before: Vec<u8>,
    at: usize,
    divergence: DivergenceFlag,
}

/// Flag for a second run whose output differs from that of the first.
#[derive(Debug, Clone, Default)]
pub struct DivergenceFlag(Arc<AtomicBool>);

impl DivergenceFlag {
    /// Returns true if a difference has been found so far.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl ReplayFilter {
    /// Creates a sink that passes on the output that follows `before`.
    #[must_use]
    pub(crate) fn new(inner: Box<dyn OutputSink>, before: Vec<u8>) -> Self {
        Self { inner, before, at: 0, divergence: DivergenceFlag::default() }
    }

    /// Returns the flag that is set as soon as the output differs from `before`.
    #[must_use]
    pub(crate) fn divergence(&self) -> DivergenceFlag {
        self.divergence.clone()
    }

    /// Records that the output differs, and returns the start of the current line, up to the first different byte.
    fn diverge(&mut self) -> Vec<u8> {
        self.divergence.0.store(true, Ordering::Release);
        let line = self.before[..self.at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let open = self.before.last().is_some_and(|byte| *byte != b'\n');
        let mut head = if open { vec![b'\n'] } else { Vec::new() };
        head.extend_from_slice(&self.before[line..self.at]);
        self.at = self.before.len();
        head
    }
}

impl OutputSink for ReplayFilter {
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
        let mut line = self.diverge();
        line.extend_from_slice(rest);
        self.inner.write(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delayed_sink::tests::RecordingSink;

    /// Returns the output that is passed on for these pieces after `before`, and true if they differ from `before`.
    fn pass_through(before: &str, pieces: &[&str]) -> (String, bool) {
        let kept = RecordingSink::default();
        let mut sink = ReplayFilter::new(Box::new(kept.clone()), before.into());
        let divergence = sink.divergence();
        for piece in pieces {
            sink.write(piece.as_bytes()).expect("the sink accepts the data");
        }
        (kept.text(), divergence.is_set())
    }

    #[test]
    fn skips_output_already_printed() {
        for (before, pieces, expected) in [
            ("", &["a", "b"][..], "ab"),
            ("ab", &["a", "bc", "d"], "cd"),
            ("abc", &["ab"], ""),
            ("ab", &["ab", "ab"], "ab"),
            ("a\nbc\n", &["a\nb", "c\n"], ""),
        ] {
            assert_eq!(pass_through(before, pieces), (expected.to_owned(), false), "{before:?} {pieces:?}");
        }
    }

    #[test]
    fn divergent_output_starts_on_a_new_line() {
        for (before, pieces, expected) in [
            ("abc", &["aX", "bc"][..], "\naXbc"),
            ("one\n0.36\n", &["one\n0.", "17", "\nthr\n"], "0.17\nthr\n"),
            ("one\n0.36\ntwo\n", &["one\n0.17\n", "two\n"], "0.17\ntwo\n"),
            ("a\nb\n", &["x"], "x"),
            ("a\nb", &["a\n\n"], "\n\n"),
        ] {
            assert_eq!(pass_through(before, pieces), (expected.to_owned(), true), "{before:?} {pieces:?}");
        }
    }
}

//! Output of a run that is made once more: what was passed on already is not passed on again.

use std::io;

use codebox_core::OutputSink;

/// A sink that leaves out what was printed before, as long as it is the same.
pub struct Continuing {
    inner: Box<dyn OutputSink>,
    before: Vec<u8>,
    at: usize,
}

impl Continuing {
    /// Passes on what comes after `before`.
    #[must_use]
    pub fn new(inner: Box<dyn OutputSink>, before: Vec<u8>) -> Self {
        Self { inner, before, at: 0 }
    }
}

impl OutputSink for Continuing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let expected = &self.before[self.at..];
        let same = expected.iter().zip(bytes).take_while(|(one, two)| one == two).count();
        self.at += same;
        if same < bytes.len() && self.at < self.before.len() {
            // It goes another way now; what comes is new, all of it.
            self.at = self.before.len();
        }
        if same < bytes.len() { self.inner.write(&bytes[same..]) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lingering::tests::Kept;

    #[test]
    fn what_was_printed_is_not_printed_again() {
        for (before, pieces, expected) in [
            ("", &["a", "b"][..], "ab"),
            ("ab", &["a", "bc", "d"], "cd"),
            ("abc", &["ab"], ""),
            ("abc", &["aX", "bc"], "Xbc"),
            ("ab", &["ab", "ab"], "ab"),
        ] {
            let kept = Kept::default();
            let mut sink = Continuing::new(Box::new(kept.clone()), before.into());
            for piece in pieces {
                sink.write(piece.as_bytes()).expect("it takes all");
            }
            assert_eq!(kept.text(), expected, "{before:?} {pieces:?}");
        }
    }
}

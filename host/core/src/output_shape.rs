//! Shortening of output for readers of short texts, such as language models.

use std::borrow::Cow;
use std::num::NonZeroU64;

use serde::{Deserialize, Serialize};

/// End of a text that was cut.
pub const TRUNCATION_MARK: &str = "...[truncated]";

/// Limits on a text that is passed on: its first bytes, and of these the first lines.
///
/// A text that is longer ends with [`TRUNCATION_MARK`] on a line of its own, in addition to the limits. It is never cut inside
/// a character of UTF-8. The result depends on the text alone and not on the parts in which it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OutputShape {
    /// Maximum number of bytes.
    pub max_bytes: NonZeroU64,
    /// Maximum number of lines.
    pub max_lines: NonZeroU64,
}

impl Default for OutputShape {
    /// Returns the limits of 4,000 bytes and 200 lines.
    fn default() -> Self {
        const MAX_BYTES: NonZeroU64 = NonZeroU64::new(4000).expect("it is not zero");
        const MAX_LINES: NonZeroU64 = NonZeroU64::new(200).expect("it is not zero");
        Self { max_bytes: MAX_BYTES, max_lines: MAX_LINES }
    }
}

impl OutputShape {
    /// Returns the text within the limits, and true if it was cut.
    #[must_use]
    pub fn apply(self, text: &[u8]) -> (Vec<u8>, bool) {
        let mut shaper = OutputShaper::new(self);
        let mut shaped = shaper.push(text);
        shaped.extend(shaper.finish());
        (shaped, shaper.is_cut())
    }

    /// Returns a text within the limits.
    #[must_use]
    pub fn apply_to_text(self, text: &str) -> Cow<'_, str> {
        match self.apply(text.as_bytes()) {
            (_, false) => Cow::Borrowed(text),
            // Characters are kept whole.
            (shaped, true) => Cow::Owned(String::from_utf8_lossy(&shaped).into_owned()),
        }
    }
}

/// Returns the first line of a text, of at most `max_bytes` bytes, and [`TRUNCATION_MARK`] after it if more was cut than the end of
/// the line.
#[must_use]
pub fn shorten_line(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let line = text.split_inclusive('\n').next().unwrap_or_default();
    let kept = &line[..line.floor_char_boundary(max_bytes)];
    if kept.len() == text.len() { Cow::Borrowed(text) } else { Cow::Owned(format!("{kept}{TRUNCATION_MARK}")) }
}

/// Output that is shortened while it is written.
#[derive(Debug, Clone)]
pub struct OutputShaper {
    bytes_left: u64,
    lines_left: u64,
    /// The first bytes of a character whose other bytes have not arrived.
    incomplete: Vec<u8>,
    passed: u64,
    is_cut: bool,
    ends_line: bool,
}

impl OutputShaper {
    /// Creates a shaper for one stream.
    #[must_use]
    pub fn new(shape: OutputShape) -> Self {
        let OutputShape { max_bytes, max_lines } = shape;
        let (bytes_left, lines_left) = (max_bytes.get(), max_lines.get());
        Self { bytes_left, lines_left, incomplete: Vec::new(), passed: 0, is_cut: false, ends_line: true }
    }

    /// Returns true if a part of the text was cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the number of bytes of the text that were returned, without the mark.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the part of the text up to the end of `chunk` that has not been returned and is within the limits.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        if self.is_cut || chunk.is_empty() {
            return Vec::new();
        }
        let mut text = std::mem::take(&mut self.incomplete);
        text.extend(chunk);
        let mut end = usize::try_from(self.bytes_left).map_or(text.len(), |left| left.min(text.len()));
        let line_ends = text[..end].iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(index, _)| index + 1);
        match (usize::try_from(self.lines_left), self.lines_left) {
            (_, 0) => end = 0,
            (Ok(left), _) => end = line_ends.clone().nth(left - 1).unwrap_or(end),
            (Err(_), _) => {}
        }
        self.is_cut = end < text.len();
        end -= incomplete_suffix_len(&text[..end]);
        if !self.is_cut {
            self.incomplete = text[end..].to_vec();
        }
        text.truncate(end);
        self.account(&text);
        text
    }

    /// Returns the end of the text: the mark, if the text was cut.
    pub fn finish(&mut self) -> Vec<u8> {
        if !self.is_cut {
            return std::mem::take(&mut self.incomplete);
        }
        let line_end = if self.ends_line { "" } else { "\n" };
        format!("{line_end}{TRUNCATION_MARK}").into_bytes()
    }

    fn account(&mut self, passed: &[u8]) {
        self.passed += passed.len() as u64;
        self.bytes_left -= passed.len() as u64;
        self.lines_left -= passed.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.ends_line = passed.last().map_or(self.ends_line, |byte| *byte == b'\n');
    }
}

/// Returns the number of bytes at the end of a text that start a character of UTF-8 and do not complete it.
fn incomplete_suffix_len(text: &[u8]) -> usize {
    const LONGEST_CHARACTER: usize = 4;
    for length in 1..LONGEST_CHARACTER.min(text.len() + 1) {
        let needed = match text[text.len() - length] {
            // A byte in the middle of a character.
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if needed > length { length } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shape(max_bytes: u64, max_lines: u64) -> OutputShape {
        let limit = |number| NonZeroU64::new(number).expect("it is not zero");
        OutputShape { max_bytes: limit(max_bytes), max_lines: limit(max_lines) }
    }

    fn shaped(max_bytes: u64, max_lines: u64, text: &str) -> String {
        String::from_utf8(shape(max_bytes, max_lines).apply(text.as_bytes()).0).expect("no character is cut")
    }

    #[test]
    fn cuts_by_bytes_then_by_lines() {
        assert_eq!(shaped(5, 9, "12345"), "12345");
        assert_eq!(shaped(5, 9, "123456"), "12345\n...[truncated]");
        assert_eq!(shaped(5, 9, "1234\n6"), "1234\n...[truncated]");
        assert_eq!(shaped(100, 2, "1\n2\n"), "1\n2\n");
        assert_eq!(shaped(100, 2, "1\n2\n3"), "1\n2\n...[truncated]");
        assert_eq!(shaped(3, 1, "1\n2\n3"), "1\n...[truncated]");
        assert_eq!(shaped(1, 1, ""), "");
        assert_eq!(shaped(1, 1, "é"), "...[truncated]");
    }

    #[test]
    fn never_cuts_inside_a_character() {
        assert_eq!(shaped(4, 9, "abcé"), "abc\n...[truncated]");
        assert_eq!(shaped(5, 9, "abcé"), "abcé");
        assert_eq!(shaped(6, 9, "abc😀"), "abc\n...[truncated]");
    }

    #[test]
    fn a_text_that_fits_is_not_copied() {
        assert!(matches!(shape(5, 9).apply_to_text("12345"), Cow::Borrowed("12345")));
        assert_eq!(shape(4, 9).apply_to_text("äöü"), "äö\n...[truncated]");
    }

    #[test]
    fn lines_stay_one_line() {
        assert_eq!(shorten_line("a b", 3), "a b");
        assert_eq!(shorten_line("äöü", 3), "ä...[truncated]");
        assert_eq!(shorten_line("a\nb", 9), "a\n...[truncated]");
        assert_eq!(shorten_line("", 9), "");
    }

    #[test]
    fn passes_bytes_that_are_no_text() {
        let bytes = [0xff, 0x80, 0x80, 0x80, 0x80, 0xe2, 0x82];
        assert_eq!(shape(100, 9).apply(&bytes), (bytes.to_vec(), false));
        assert_eq!(shape(4, 9).apply(&bytes).0, [&bytes[..4], b"\n...[truncated]"].concat());
    }

    proptest! {
        #[test]
        fn does_not_depend_on_the_parts(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(0xe2_u8), Just(0x82), Just(0xac), any::<u8>()], 0..60),
            max_bytes in 1_u64..40,
            max_lines in 1_u64..6,
            size in 1_usize..9,
        ) {
            let shape = shape(max_bytes, max_lines);
            let mut shaper = OutputShaper::new(shape);
            let mut parts: Vec<u8> = text.chunks(size).flat_map(|part| shaper.push(part)).collect();
            parts.extend(shaper.finish());
            let (whole, is_cut) = shape.apply(&text);
            prop_assert_eq!(&parts, &whole);
            let kept = if is_cut { whole.len() - TRUNCATION_MARK.len() } else { whole.len() };
            prop_assert!(kept as u64 <= max_bytes + 1);
            prop_assert_eq!(is_cut, text.len() as u64 > max_bytes || lines(&text) > max_lines);
        }
    }

    /// Returns the number of lines, of which the last one may have no end.
    fn lines(text: &[u8]) -> u64 {
        text.split_inclusive(|byte| *byte == b'\n').count() as u64
    }
}

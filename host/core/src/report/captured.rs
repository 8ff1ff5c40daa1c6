use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Kept output of one stream: all of it, or its head and its tail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CapturedOutput {
    /// First bytes; all of them if no byte was dropped and `tail` is empty.
    #[serde(with = "serde_bytes")]
    pub head: Vec<u8>,
    /// Last bytes, after the dropped ones.
    #[serde(with = "serde_bytes")]
    pub tail: Vec<u8>,
    /// Number of bytes that were dropped between `head` and `tail`.
    pub dropped: u64,
}

/// File with the whole output of a stream of which the caller gets a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpilledOutput {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// Path of the file.
    pub path: String,
    /// Number of bytes in the file, at most as many as the limit on output.
    pub bytes: u64,
}

impl fmt::Display for SpilledOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the output to {} ({} bytes) is in {}", self.stream, self.bytes, self.path)
    }
}

/// Bytes in a form that JSON can carry without loss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonBytes {
    /// UTF-8 text.
    Text(String),
    /// Base64 form of bytes that are not UTF-8.
    Base64(String),
}

impl JsonBytes {
    /// Returns the lossless form of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

impl CapturedOutput {
    /// Creates the output of a stream that was kept whole.
    #[must_use]
    pub fn complete(bytes: impl Into<Vec<u8>>) -> Self {
        Self { head: bytes.into(), ..Self::default() }
    }

    /// Returns all kept bytes, with head and tail joined.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(&self.head)
        } else {
            Cow::Owned([self.head.as_slice(), &self.tail].concat())
        }
    }

    /// Returns the number of bytes written, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add((self.head.len() + self.tail.len()) as u64)
    }

    /// Returns true if bytes were dropped.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// Returns the kept output as text, with U+FFFD in place of invalid UTF-8.
    #[must_use]
    pub fn to_text_lossy(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// Returns the lossless form of the kept output.
    #[must_use]
    pub fn to_json_bytes(&self) -> JsonBytes {
        JsonBytes::of(&self.bytes())
    }

    /// Returns the same output, with the bytes of characters that the cut divided counted as dropped.
    ///
    /// Truncated UTF-8 text therefore stays UTF-8 text. At most three bytes are removed on either side of the gap; a
    /// stream that was kept whole does not change.
    #[must_use]
    pub fn trim_to_char_boundaries(mut self) -> Self {
        if !self.is_truncated() {
            return self;
        }
        let head_end = match std::str::from_utf8(&self.head) {
            // An error without a length means that the bytes end inside a character.
            Err(fault) if fault.error_len().is_none() => fault.valid_up_to(),
            _ => self.head.len(),
        };
        let continues = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
        let tail_start = self.tail.iter().take(3).take_while(continues).count();
        self.dropped += (self.head.len() - head_end + tail_start) as u64;
        self.head.truncate(head_end);
        self.tail.drain(..tail_start);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_utf8_as_text_and_other_bytes_as_base64() {
        assert_eq!(CapturedOutput::complete("é\n").to_json_bytes(), JsonBytes::Text("é\n".to_owned()));
        assert_eq!(CapturedOutput::complete([0xff, 0]).to_json_bytes(), JsonBytes::Base64("/wA=".to_owned()));
        // A character that is split between head and tail is joined again.
        let split = CapturedOutput { head: vec![0xc3], tail: vec![0xa9], dropped: 0 };
        assert_eq!(split.clone().trim_to_char_boundaries(), split);
        assert_eq!(split.to_json_bytes(), JsonBytes::Text("é".to_owned()));
    }

    #[test]
    fn trims_divided_characters() {
        let cut = CapturedOutput { head: vec![b'a', 0xe2, 0x82], tail: vec![0x82, 0xac, b'b'], dropped: 5 };
        let clean = cut.clone().trim_to_char_boundaries();
        assert_eq!(clean.bytes().as_ref(), b"ab");
        assert_eq!((clean.dropped, clean.total()), (9, cut.total()));
        // Binary output loses only bytes that look like part of a character.
        let binary = CapturedOutput { head: vec![0xff, 0xfe], tail: vec![0xff], dropped: 1 };
        assert_eq!(binary.clone().trim_to_char_boundaries(), binary);
    }
}

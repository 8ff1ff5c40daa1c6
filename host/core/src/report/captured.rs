use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// What was kept of one output stream: all of it, or its head and its tail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Captured {
    /// The first bytes; all of them if nothing was dropped and `tail` is empty.
    pub head: Vec<u8>,
    /// The last bytes, after what was dropped.
    pub tail: Vec<u8>,
    /// How many bytes between the two were dropped.
    pub dropped: u64,
}

/// Bytes in a form that JSON can carry and that gives the same bytes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rendered {
    /// They are UTF-8.
    Text(String),
    /// They are not; this is their base64 form.
    Base64(String),
}

impl Rendered {
    /// The lossless form of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }
}

impl Captured {
    /// A whole stream.
    #[must_use]
    pub fn whole(bytes: impl Into<Vec<u8>>) -> Self {
        Self { head: bytes.into(), ..Self::default() }
    }

    /// Everything that was kept, head and tail in one.
    #[must_use]
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.tail.is_empty() {
            Cow::Borrowed(&self.head)
        } else {
            Cow::Owned([self.head.as_slice(), &self.tail].concat())
        }
    }

    /// How many bytes were written, kept or not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add((self.head.len() + self.tail.len()) as u64)
    }

    /// Whether something was dropped.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// What was kept as text, with U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn to_text_lossy(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    /// The lossless form of what was kept.
    #[must_use]
    pub fn rendered(&self) -> Rendered {
        Rendered::of(&self.bytes())
    }

    /// The same, with the bytes of characters that the cut went through counted as dropped.
    ///
    /// So that cutting UTF-8 text leaves UTF-8 text. At most three bytes go at either side of the gap;
    /// streams that are whole stay as they are.
    #[must_use]
    pub fn cut_between_characters(mut self) -> Self {
        if !self.is_truncated() {
            return self;
        }
        let head_end = match std::str::from_utf8(&self.head) {
            // No error length: the bytes end in the midst of a character.
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
    fn text_stays_text_and_bytes_stay_bytes() {
        assert_eq!(Captured::whole("é\n").rendered(), Rendered::Text("é\n".to_owned()));
        assert_eq!(Captured::whole([0xff, 0]).rendered(), Rendered::Base64("/wA=".to_owned()));
        // A character split between head and tail is one character again.
        let split = Captured { head: vec![0xc3], tail: vec![0xa9], dropped: 0 };
        assert_eq!(split.clone().cut_between_characters(), split);
        assert_eq!(split.rendered(), Rendered::Text("é".to_owned()));
    }

    #[test]
    fn a_cut_through_characters_moves_to_their_edges() {
        let cut = Captured { head: vec![b'a', 0xe2, 0x82], tail: vec![0x82, 0xac, b'b'], dropped: 5 };
        let clean = cut.clone().cut_between_characters();
        assert_eq!(clean.bytes().as_ref(), b"ab");
        assert_eq!((clean.dropped, clean.total()), (9, cut.total()));
        // Bytes that are no text anyway keep everything but what looks like half a character.
        let binary = Captured { head: vec![0xff, 0xfe], tail: vec![0xff], dropped: 1 };
        assert_eq!(binary.clone().cut_between_characters(), binary);
    }
}

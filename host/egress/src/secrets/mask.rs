use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// Byte in place of each byte of a masked value.
const MASKED: u8 = b'*';

/// Number of matching bytes at the end of received data that are worth waiting for the next data.
const MIN_PARTIAL: usize = 4;

/// Mask of secrets in one stream of bytes: it overwrites each occurrence of a value with `*`, and changes no length.
///
/// Values are also masked in JSON strings and in base64, because codebox itself encodes `Basic` credentials. Of a value that is divided between two
/// calls of [`apply`](Self::apply), the part in the first one remains; [`take_complete`](Self::take_complete) holds such a part back.
#[derive(Debug, Clone, Default)]
pub struct Mask(Vec<Pattern>);

#[derive(Clone)]
struct Pattern {
    bytes: Vec<u8>,
    /// Number of bytes before and after an occurrence that are masked as well.
    around: [usize; 2],
    /// For each number of matched bytes, the number that still match if the next byte does not.
    fallback: Vec<usize>,
    /// Number of bytes that match at the end of the stream until now.
    matched: usize,
    /// Number of bytes after the last occurrence that are to be masked.
    left: usize,
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pattern(..)")
    }
}

impl Mask {
    /// Creates a mask of these values. They are masked in JSON strings too, and in those of a document that is a string of another one.
    pub(super) fn new<'v>(values: impl Iterator<Item = &'v str>) -> Self {
        let mut patterns = Vec::new();
        for value in values {
            let mut form = value.to_owned();
            for _ in 0..3 {
                let escaped = form.replace('\\', "\\\\").replace('"', "\\\"");
                let is_last = escaped == form;
                patterns.push(Pattern::new(std::mem::replace(&mut form, escaped).into_bytes(), [0, 0]));
                if is_last {
                    break;
                }
            }
            patterns.extend((0..3).flat_map(|offset| in_base64(value, offset)));
        }
        Self(patterns)
    }

    /// Returns true if there is nothing to mask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the length of the longest part of a value, of at least four bytes, with which the data so far end.
    fn partial(&self) -> usize {
        self.0.iter().map(|pattern| pattern.matched).filter(|matched| *matched >= MIN_PARTIAL).max().unwrap_or(0)
    }

    /// Takes received data without the values. A part of a value at their end stays in `held` until the next data show if it is one.
    #[must_use]
    pub fn take_complete(&mut self, held: &mut Vec<u8>) -> Vec<u8> {
        let mut ahead = self.clone();
        ahead.apply(&mut held.clone());
        let tail = held.split_off(held.len().saturating_sub(ahead.partial()));
        let mut complete = std::mem::replace(held, tail);
        self.apply(&mut complete);
        complete
    }

    /// Takes all received data without the values, after the time for which a part is held, and at the end of the data.
    #[must_use]
    pub fn take_all(&mut self, held: &mut Vec<u8>) -> Vec<u8> {
        let mut all = std::mem::take(held);
        self.apply(&mut all);
        all
    }

    /// Overwrites the values in the next bytes of the stream.
    pub fn apply(&mut self, bytes: &mut [u8]) {
        let found: Vec<Range<usize>> = self.0.iter_mut().flat_map(|pattern| pattern.find(bytes)).collect();
        for range in found {
            bytes[range].fill(MASKED);
        }
    }

    /// Returns the next bytes of the stream without the values. They are copied only if there are secrets.
    #[must_use]
    pub fn masked<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut bytes = bytes.to_vec();
        self.apply(&mut bytes);
        Cow::Owned(bytes)
    }

    /// Returns a complete text without the values.
    #[must_use]
    pub fn mask_text<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        self.fresh().masked(bytes)
    }

    /// Returns the same mask for another stream.
    #[must_use]
    pub fn fresh(&self) -> Self {
        let mut fresh = self.clone();
        fresh.0.iter_mut().for_each(|pattern| (pattern.matched, pattern.left) = (0, 0));
        fresh
    }
}

/// Returns the patterns of a value in the base64 of a text in which it starts at this offset, modulo three. The characters at both ends, which depend
/// on the text around it as well, are masked with it.
fn in_base64(value: &str, offset: usize) -> Vec<Pattern> {
    let padded = [&[0; 2][..offset], value.as_bytes()].concat();
    let (first, end) = ((offset * 8).div_ceil(6), padded.len() * 8 / 6);
    let around = [usize::from(offset > 0), usize::from(padded.len() * 8 % 6 > 0)];
    let core = |text: String| text.as_bytes()[first..end].to_vec();
    let (standard, url_safe) = (core(STANDARD.encode(&padded)), core(URL_SAFE.encode(&padded)));
    let other = (url_safe != standard).then(|| Pattern::new(url_safe, around));
    std::iter::once(Pattern::new(standard, around)).chain(other).collect()
}

impl Pattern {
    fn new(bytes: Vec<u8>, around: [usize; 2]) -> Self {
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for at in 1..bytes.len() {
            while matched > 0 && bytes[at] != bytes[matched] {
                matched = fallback[matched - 1];
            }
            if bytes[at] == bytes[matched] {
                matched += 1;
            }
            fallback[at] = matched;
        }
        Self { bytes, around, fallback, matched: 0, left: 0 }
    }

    /// Returns the ranges to mask in the next bytes of the stream (search of Knuth, Morris and Pratt, 1977).
    fn find(&mut self, bytes: &[u8]) -> Vec<Range<usize>> {
        let [before, after] = self.around;
        let mut ranges = Vec::new();
        let mut add = |left: &mut usize, range: Range<usize>| {
            *left = range.end.saturating_sub(bytes.len());
            ranges.push(range.start..range.end.min(bytes.len()));
        };
        if self.left > 0 {
            let left = self.left;
            add(&mut self.left, 0..left);
        }
        for (at, byte) in bytes.iter().enumerate() {
            while self.matched > 0 && *byte != self.bytes[self.matched] {
                self.matched = self.fallback[self.matched - 1];
            }
            if *byte == self.bytes[self.matched] {
                self.matched += 1;
            }
            if self.matched == self.bytes.len() {
                let start = (at + 1).saturating_sub(self.bytes.len() + before);
                add(&mut self.left, start..at + 1 + after);
                self.matched = self.fallback[self.matched - 1];
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(values: &[&str], pieces: &[&str]) -> String {
        let mut mask = Mask::new(values.iter().copied());
        let piece = |piece: &&str| String::from_utf8_lossy(&mask.masked(piece.as_bytes())).into_owned();
        pieces.iter().map(piece).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn values_are_overwritten() {
        assert_eq!(masked(&["abcabd"], &["abcabcabd abcab"]), "abc****** abcab");
        assert_eq!(masked(&["aaaa"], &["aaaaa"]), "*****");
        assert_eq!(masked(&["abcd", "cdef"], &["abcdef"]), "******");
        assert_eq!(masked(&["abcd"], &["xab", "cdab", "cx"]), "xab|**ab|cx");
        assert_eq!(masked(&["a\"b\\c"], &[r#"["a\"b\\c"] a"b\c"#]), r#"["*******"] *****"#);
        assert_eq!(masked(&["a\"\\b"], &[r#""{\"x\":\"a\\\"\\\\b\"}""#]), r#""{\"x\":\"**********\"}""#);
        assert_eq!(masked(&[], &["abc"]), "abc");
    }

    #[test]
    fn base64_is_masked_at_each_offset() {
        let value = "sk-SECRET>>?value";
        for user in ["", "u", "us", "use"] {
            for end in ["", "x", "xy"] {
                for engine in [&STANDARD, &URL_SAFE] {
                    let encoded = engine.encode(format!("{user}:{value}{end}"));
                    let result = masked(&[value], &[&encoded]);
                    // The characters that have bits of the value.
                    let (first, last) = ((user.len() + 1) * 8 / 6, ((user.len() + 1 + value.len()) * 8).div_ceil(6));
                    assert_eq!(result[first..last], "*".repeat(last - first), "{user} {end} {result}");
                    let split = usize::midpoint(first, last);
                    let pieces = masked(&[value], &[&encoded[..split], &encoded[split..]]).replace('|', "");
                    assert_eq!(pieces[split..last], "*".repeat(last - split), "{user} {end} {pieces}");
                }
            }
        }
    }

    #[test]
    fn parts_at_the_end_are_held() {
        let mut mask = Mask::new(["abcdefgh"].into_iter());
        let mut held = Vec::new();
        for (piece, taken) in [("xabc", "xabc"), ("d", ""), ("efgh", "*****"), ("yabcdef", "y"), ("x", "abcdefx")] {
            held.extend(piece.as_bytes());
            assert_eq!(String::from_utf8_lossy(&mask.take_complete(&mut held)), taken, "{piece}");
        }
        held.extend(b"abcde");
        assert_eq!(mask.take_complete(&mut held), b"");
        assert_eq!(mask.take_all(&mut held), b"abcde");
        held.extend(b"fgh");
        assert_eq!(mask.take_complete(&mut held), b"***");
    }

    proptest! {
        #[test]
        fn no_value_remains(text in "[ab]{0,40}", value in "[ab]{4,5}") {
            let mask = Mask::new(std::iter::once(value.as_str()));
            let result = mask.mask_text(text.as_bytes()).into_owned();
            prop_assert!(!String::from_utf8_lossy(&result).contains(&value));
            prop_assert_eq!(result.len(), text.len());
        }
    }
}

//! Frames: one byte of kind, four bytes of length in network order, and the payload.

use std::fmt;

/// Bytes before the payload.
pub const HEADER: usize = 5;

/// A frame as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: u8,
    /// Its content.
    pub payload: Vec<u8>,
}

/// Why bytes are no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// The length that was announced.
    pub announced: u32,
    /// The longest that is taken.
    pub most: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { announced, most } = self;
        write!(f, "a frame of {announced} bytes is longer than the {most} that are taken")
    }
}

impl std::error::Error for TooLong {}

/// The bytes of a frame.
///
/// # Panics
/// When the payload is 4 GiB long or longer; no sender makes one.
#[must_use]
pub fn encode(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("payloads are shorter than 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A payload that begins with a number.
pub(crate) fn numbered(number: u32, bytes: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), bytes].concat()
}

/// The number that a payload begins with, and the rest of it.
pub(crate) fn number_of(mut payload: Vec<u8>) -> Option<(u32, Vec<u8>)> {
    let number = u32::from_be_bytes(*payload.first_chunk()?);
    payload.drain(..size_of::<u32>());
    Some((number, payload))
}

/// Puts frames together from pieces of any size; holds no more than one frame and one piece.
#[derive(Debug)]
pub struct Decoder {
    most: usize,
    pending: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// A decoder that takes payloads of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, pending: Vec::new(), read: 0 }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        if self.read > 0 {
            self.pending.drain(..self.read);
            self.read = 0;
        }
        self.pending.extend_from_slice(piece);
    }

    /// The next whole frame, or nothing until more bytes come.
    ///
    /// # Errors
    /// When a frame is announced that is longer than what is taken; the stream is useless from there on.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, TooLong> {
        let Some((header, rest)) = self.pending[self.read..].split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, length @ ..] = *header;
        let announced = u32::from_be_bytes(length);
        let length = usize::try_from(announced).unwrap_or(usize::MAX);
        if length > self.most {
            return Err(TooLong { announced, most: self.most });
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, payload: payload.to_vec() };
        self.read += HEADER + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_from_pieces_of_any_size() {
        let frames = [(1, vec![]), (2, vec![7; 300]), (255, b"end".to_vec())];
        let stream: Vec<u8> = frames.iter().flat_map(|(kind, payload)| encode(*kind, payload)).collect();
        for size in [1, 2, 5, 6, 64, 1000] {
            let mut decoder = Decoder::new(300);
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                decoder.push(piece);
                while let Some(Frame { kind, payload }) = decoder.next_frame().expect("nothing is too long") {
                    found.push((kind, payload));
                }
            }
            assert_eq!(found, frames, "in pieces of {size}");
        }
    }

    #[test]
    fn a_length_is_believed_only_up_to_the_bound() {
        let mut decoder = Decoder::new(10);
        decoder.push(&[1, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.next_frame(), Err(TooLong { announced: u32::MAX, most: 10 }));
        assert!(decoder.pending.capacity() < 1024);
    }
}

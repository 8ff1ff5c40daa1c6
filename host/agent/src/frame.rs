//! Frames of the protocol: one byte for the kind, four bytes for the length in network byte order, and the payload.

use std::fmt;

/// Length of a frame's header in bytes.
pub const HEADER: usize = 5;

/// A frame as it is on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind of request or event.
    pub kind: u8,
    /// The content.
    pub payload: Vec<u8>,
}

/// The error for a frame whose payload is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// The payload length in the header.
    pub announced: u32,
    /// The limit on payload lengths.
    pub most: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { announced, most } = self;
        write!(f, "frame of {announced} bytes exceeds the maximum of {most} bytes")
    }
}

impl std::error::Error for TooLong {}

/// Encodes a frame.
///
/// # Panics
/// Panics if the payload is 4 GiB or longer. No sender creates such a payload.
#[must_use]
pub fn encode(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("payloads are shorter than 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Prefixes a payload with a number.
pub(crate) fn numbered(number: u32, bytes: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), bytes].concat()
}

/// Splits a payload into its leading number and the rest.
pub(crate) fn number_of(mut payload: Vec<u8>) -> Option<(u32, Vec<u8>)> {
    let number = u32::from_be_bytes(*payload.first_chunk()?);
    payload.drain(..size_of::<u32>());
    Some((number, payload))
}

/// Assembles frames from chunks of any size. Holds at most one frame and one chunk.
#[derive(Debug)]
pub struct Decoder {
    most: usize,
    pending: Vec<u8>,
    read: usize,
}

impl Decoder {
    /// Creates a decoder that accepts payloads of at most `most` bytes.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, pending: Vec::new(), read: 0 }
    }

    /// Appends the next chunk of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        if self.read > 0 {
            self.pending.drain(..self.read);
            self.read = 0;
        }
        self.pending.extend_from_slice(piece);
    }

    /// Returns the next complete frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// Returns an error if the next payload is longer than the limit. The rest of the stream cannot be decoded.
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

//! Frames of the protocol: one byte for the kind, four bytes for the length in network byte order, and the payload.

use std::fmt;

/// Length of a frame's header in bytes.
pub const HEADER_SIZE: usize = 5;

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
pub struct FrameTooLong {
    /// The payload length in the header.
    pub payload_len: u32,
    /// The limit on payload lengths.
    pub max_payload_len: usize,
}

impl fmt::Display for FrameTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { payload_len, max_payload_len } = self;
        write!(f, "frame of {payload_len} bytes exceeds the maximum of {max_payload_len} bytes")
    }
}

impl std::error::Error for FrameTooLong {}

/// Encodes a frame.
///
/// # Panics
/// Panics if the payload is 4 GiB or longer. No sender creates such a payload.
#[must_use]
pub fn encode(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("payloads are shorter than 4 GiB");
    let mut bytes = Vec::with_capacity(HEADER_SIZE + payload.len());
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Prefixes a payload with a number.
pub(crate) fn prepend_number(number: u32, bytes: &[u8]) -> Vec<u8> {
    [&number.to_be_bytes(), bytes].concat()
}

/// Splits a payload into its leading number and the rest.
pub(crate) fn split_number(mut payload: Vec<u8>) -> Option<(u32, Vec<u8>)> {
    let number = u32::from_be_bytes(*payload.first_chunk()?);
    payload.drain(..size_of::<u32>());
    Some((number, payload))
}

/// Assembles frames from chunks of any size. Holds at most one frame and one chunk.
#[derive(Debug)]
pub struct Decoder {
    max_payload_len: usize,
    pending: Vec<u8>,
    consumed: usize,
}

impl Decoder {
    /// Creates a decoder that accepts payloads of at most `max_payload_len` bytes.
    #[must_use]
    pub fn new(max_payload_len: usize) -> Self {
        Self { max_payload_len, pending: Vec::new(), consumed: 0 }
    }

    /// Appends the next chunk of the stream.
    pub fn push(&mut self, piece: &[u8]) {
        if self.consumed > 0 {
            self.pending.drain(..self.consumed);
            self.consumed = 0;
        }
        self.pending.extend_from_slice(piece);
    }

    /// Returns the next complete frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// Returns an error if the next payload is longer than the limit. The rest of the stream cannot be decoded.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLong> {
        let Some((header, rest)) = self.pending[self.consumed..].split_first_chunk::<HEADER_SIZE>() else {
            return Ok(None);
        };
        let [kind, length @ ..] = *header;
        let payload_len = u32::from_be_bytes(length);
        let length = usize::try_from(payload_len).unwrap_or(usize::MAX);
        if length > self.max_payload_len {
            return Err(FrameTooLong { payload_len, max_payload_len: self.max_payload_len });
        }
        let Some(payload) = rest.get(..length) else { return Ok(None) };
        let frame = Frame { kind, payload: payload.to_vec() };
        self.consumed += HEADER_SIZE + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_frames_from_chunks_of_any_size() {
        let frames = [(1, vec![]), (2, vec![7; 300]), (255, b"end".to_vec())];
        let stream: Vec<u8> = frames.iter().flat_map(|(kind, payload)| encode(*kind, payload)).collect();
        for size in [1, 2, 5, 6, 64, 1000] {
            let mut decoder = Decoder::new(300);
            let mut found = Vec::new();
            for piece in stream.chunks(size) {
                decoder.push(piece);
                while let Some(Frame { kind, payload }) = decoder.next_frame().expect("no length exceeds the limit") {
                    found.push((kind, payload));
                }
            }
            assert_eq!(found, frames, "in pieces of {size}");
        }
    }

    #[test]
    fn rejects_length_above_limit() {
        let mut decoder = Decoder::new(10);
        decoder.push(&[1, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decoder.next_frame(), Err(FrameTooLong { payload_len: u32::MAX, max_payload_len: 10 }));
        assert!(decoder.pending.capacity() < 1024);
    }
}

//! Frames of messages: the length in four bytes, little-endian, and the message in MessagePack.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Appends the frame of a message.
///
/// # Errors
/// Returns an error for a message that cannot be encoded, such as one with a path that is not UTF-8, and for one above 4 GiB.
pub(crate) fn append<T: Serialize>(frames: &mut Vec<u8>, message: &T) -> io::Result<()> {
    let start = frames.len();
    frames.extend([0; 4]);
    // Members are written by name: some have no value, and are left out.
    rmp_serde::encode::write_named(frames, message).map_err(io::Error::other)?;
    let too_long = |_| io::Error::new(io::ErrorKind::InvalidInput, "a message is longer than 4 GiB");
    let length = u32::try_from(frames.len() - start - 4).map_err(too_long)?;
    frames[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Writes the frame of a message.
pub(crate) fn write<T: Serialize>(channel: &mut impl Write, message: &T) -> io::Result<()> {
    let mut frame = Vec::new();
    append(&mut frame, message)?;
    channel.write_all(&frame)
}

/// Reads a message; `None` at the end of the channel.
pub(crate) fn read<T: DeserializeOwned>(channel: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match channel.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length);
    let mut body = Vec::new();
    channel.take(u64::from(length)).read_to_end(&mut body)?;
    decode(&body, length).map(Some)
}

/// Reads a message of at most `max` bytes; `None` at the end of the channel. Memory is used only for bytes that have
/// arrived.
pub(crate) async fn read_async<T: DeserializeOwned>(
    channel: &mut (impl AsyncRead + Unpin),
    max: u32,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match channel.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let length = u32::from_le_bytes(length);
    if length > max {
        return Err(malformed("it is longer than the job's limits allow"));
    }
    let mut body = Vec::new();
    channel.take(u64::from(length)).read_to_end(&mut body).await?;
    decode(&body, length).map(Some)
}

fn decode<T: DeserializeOwned>(body: &[u8], length: u32) -> io::Result<T> {
    if body.len() != length as usize {
        return Err(malformed("it is incomplete"));
    }
    rmp_serde::from_slice(body).map_err(|error| malformed(&error.to_string()))
}

fn malformed(detail: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed message: {detail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip() {
        let mut frames = Vec::new();
        write(&mut frames, &("one", 1)).expect("it is written");
        append(&mut frames, &("two", 2)).expect("it is encoded");
        let mut channel = &frames[..];
        for expected in [("one".to_owned(), 1), ("two".to_owned(), 2)] {
            assert_eq!(read::<(String, u8)>(&mut channel).expect("a message"), Some(expected));
        }
        assert_eq!(read::<(String, u8)>(&mut channel).expect("the end"), None);
    }

    #[test]
    fn malformed_frames_are_errors() {
        for bad in [&[5, 0, 0, 0, 1][..], &[1, 0, 0, 0, 0xc1], &[0, 0, 0, 0], &[0xff, 0xff, 0xff, 0xff, 1]] {
            let error = read::<(String, u8)>(&mut &*bad).expect_err("a malformed message");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bad:?}");
        }
    }

    #[tokio::test]
    async fn long_messages_are_refused_before_they_are_read() {
        let frame = [&100_u32.to_le_bytes()[..], &[0; 100]].concat();
        let error = read_async::<(String, u8)>(&mut &frame[..], 99).await.expect_err("a long message");
        assert!(error.to_string().contains("longer"), "{error}");
    }
}

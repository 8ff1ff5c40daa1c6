//! Frames of messages: the kind in one byte, the length in four bytes, little-endian, and the message in MessagePack.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::values;

/// Kind of a message, which limits its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any message but the last one.
    Ordinary = 0,
    /// The last message of a worker about a job.
    Last = 1,
}

/// Maximum sizes of messages in bytes.
#[derive(Debug, Clone, Copy)]
pub struct MaxSizes {
    /// Maximum size of an ordinary message.
    pub ordinary: u32,
    /// Maximum size of the last message about a job.
    pub last: u32,
}

/// Size in bytes from which a message is decoded on a thread of its own.
const LARGE: usize = 256 << 10;

/// Appends the frame of a message.
///
/// # Errors
/// Returns an error for a message that cannot be encoded, such as one with a path that is not UTF-8, and for one above 4 GiB.
pub fn append<T: Serialize>(frames: &mut Vec<u8>, kind: Kind, message: &T) -> io::Result<()> {
    frames.push(kind as u8);
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
///
/// # Errors
/// As for [`append`], and the error of the channel.
pub fn write<T: Serialize>(channel: &mut impl Write, kind: Kind, message: &T) -> io::Result<()> {
    let mut frame = Vec::new();
    append(&mut frame, kind, message)?;
    channel.write_all(&frame)
}

/// Reads a message of a process that is trusted; `None` at the end of the channel.
///
/// # Errors
/// The error of the channel, and an error for a malformed message.
pub fn read<T: DeserializeOwned>(channel: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = [0; 5];
    match channel.read_exact(&mut head) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let (_, length) = parse_head(head)?;
    let mut body = Vec::new();
    channel.take(u64::from(length)).read_to_end(&mut body)?;
    decode(&body, length).map(Some)
}

/// Reads a message, and returns it with its kind; `None` at the end of the channel. Memory is used only for bytes that have
/// arrived, and in proportion to them. Must be called in a tokio runtime.
///
/// # Errors
/// The error of the channel, and an error for a message that is malformed or too large.
pub async fn read_async<T: DeserializeOwned + Send + 'static>(
    channel: &mut (impl AsyncRead + Unpin),
    max: MaxSizes,
) -> io::Result<Option<(Kind, T)>> {
    let mut head = [0; 5];
    match channel.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let (kind, length) = parse_head(head)?;
    let max = match kind {
        Kind::Ordinary => max.ordinary,
        Kind::Last => max.last,
    };
    if length > max {
        return Err(malformed("it is longer than the job's limits allow"));
    }
    let mut body = Vec::new();
    channel.take(u64::from(length)).read_to_end(&mut body).await?;
    let check_and_decode = move || {
        if !values::are_within_maximum(&body) {
            return Err(malformed("it has too many values"));
        }
        decode(&body, length)
    };
    let is_large = length as usize >= LARGE;
    let message = match is_large {
        true => tokio::task::spawn_blocking(check_and_decode).await.map_err(io::Error::other)??,
        false => check_and_decode()?,
    };
    Ok(Some((kind, message)))
}

fn parse_head([kind, length @ ..]: [u8; 5]) -> io::Result<(Kind, u32)> {
    let kind = match kind {
        0 => Kind::Ordinary,
        1 => Kind::Last,
        _ => return Err(malformed("its kind is unknown")),
    };
    Ok((kind, u32::from_le_bytes(length)))
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

    const MAX: MaxSizes = MaxSizes { ordinary: 99, last: 200 };

    #[tokio::test]
    async fn frames_round_trip() {
        let mut frames = Vec::new();
        write(&mut frames, Kind::Ordinary, &("one", 1)).expect("it is written");
        append(&mut frames, Kind::Last, &("two", 2)).expect("it is encoded");
        let messages = [(Kind::Ordinary, ("one".to_owned(), 1)), (Kind::Last, ("two".to_owned(), 2))];
        let (mut channel, mut other) = (&frames[..], &frames[..]);
        for (kind, message) in messages {
            assert_eq!(read::<(String, u8)>(&mut channel).expect("a message"), Some(message.clone()));
            assert_eq!(read_async::<(String, u8)>(&mut other, MAX).await.expect("a message"), Some((kind, message)));
        }
        assert_eq!(read::<(String, u8)>(&mut channel).expect("the end"), None);
        assert_eq!(read_async::<(String, u8)>(&mut other, MAX).await.expect("the end"), None);
    }

    #[tokio::test]
    async fn malformed_frames_are_errors() {
        let all: [&[u8]; 6] = [
            &[0, 5, 0, 0, 0, 1],
            &[0, 1, 0, 0, 0, 0xc1],
            &[0, 0, 0, 0, 0],
            &[1, 0xff, 0xff, 0xff, 0xff, 1],
            &[2, 1, 0, 0, 0, 1],
            &[0, 3, 0, 0, 0, 0x93, 0xa1, 0x61],
        ];
        for bad in all {
            let error = read::<(String, u8)>(&mut &*bad).expect_err("a malformed message");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bad:?}");
            let error = read_async::<(String, u8)>(&mut &*bad, MAX).await.expect_err("a malformed message");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bad:?}");
        }
    }

    #[tokio::test]
    async fn long_messages_are_refused_before_they_are_read() {
        for (kind, length, refused) in [(0_u8, 100_u32, true), (1, 100, false), (1, 201, true)] {
            let frame = [&[kind][..], &length.to_le_bytes(), &[0; 300]].concat();
            let error = read_async::<(String, u8)>(&mut &frame[..], MAX).await.expect_err("a message of zeros");
            assert_eq!(error.to_string().contains("longer"), refused, "{error}");
        }
    }

    #[tokio::test]
    async fn messages_with_too_many_values_are_refused() {
        let many = vec![(); values::MAX_VALUES];
        let mut frame = Vec::new();
        append(&mut frame, Kind::Last, &many).expect("it is encoded");
        let max = MaxSizes { ordinary: u32::MAX, last: u32::MAX };
        let error = read_async::<Vec<()>>(&mut &frame[..], max).await.expect_err("too many values");
        assert!(error.to_string().contains("too many values"), "{error}");
    }
}

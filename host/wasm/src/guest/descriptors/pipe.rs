//! Pipes inside one guest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::guest::errno;

/// Capacity of a pipe in bytes, as on Linux.
const CAPACITY: usize = 64 << 10;

/// `PIPE_BUF`: maximum bytes of an atomic write, as on Linux.
const PIPE_BUF: usize = 4096;

/// The bytes in a pipe, and the number of its open ends.
#[derive(Debug)]
struct Shared {
    number: u64,
    bytes: Mutex<VecDeque<u8>>,
    ends: AtomicUsize,
}

/// One end of a pipe. The other end detects when it is dropped.
#[derive(Debug)]
pub(crate) struct PipeEnd(Arc<Shared>);

/// Creates a pipe with a number that identifies it.
pub(crate) fn pipe(number: u64) -> (PipeEnd, PipeEnd) {
    let shared = Arc::new(Shared { number, bytes: Mutex::default(), ends: AtomicUsize::new(2) });
    (PipeEnd(shared.clone()), PipeEnd(shared))
}

impl PipeEnd {
    fn bytes(&self) -> MutexGuard<'_, VecDeque<u8>> {
        self.0.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the other end is closed.
    pub(crate) fn is_peer_closed(&self) -> bool {
        self.0.ends.load(Ordering::Acquire) < 2
    }

    /// Returns the number that both ends have and no other pipe of the guest has.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the number of bytes that can be read now.
    pub(crate) fn available(&self) -> usize {
        self.bytes().len()
    }

    /// Returns true if any write of at most `PIPE_BUF` bytes would succeed now.
    pub(crate) fn is_writable(&self) -> bool {
        CAPACITY - self.available() >= PIPE_BUF
    }

    /// Reads the available bytes into a buffer.
    ///
    /// # Errors
    /// [`errno::AGAIN`] for an empty pipe that is non-blocking, and [`errno::DEADLK`] for one that is blocking: no
    /// other thread could write to the pipe.
    pub(crate) fn read(&self, into: &mut [u8], blocking: bool) -> Result<usize, i32> {
        let mut bytes = self.bytes();
        if bytes.is_empty() && !into.is_empty() && !self.is_peer_closed() {
            return Err(would_block(blocking));
        }
        let count = into.len().min(bytes.len());
        for (place, byte) in into.iter_mut().zip(bytes.drain(..count)) {
            *place = byte;
        }
        Ok(count)
    }

    /// Writes as many bytes as fit.
    ///
    /// # Errors
    /// [`errno::PIPE`] if the other end is closed. [`errno::AGAIN`] or [`errno::DEADLK`], as for [`read`](Self::read),
    /// if no bytes fit or a write of at most `PIPE_BUF` bytes does not fit as a whole.
    pub(crate) fn write(&self, from: &[u8], blocking: bool) -> Result<usize, i32> {
        if self.is_peer_closed() {
            return Err(errno::PIPE);
        }
        let mut bytes = self.bytes();
        let fits = CAPACITY - bytes.len();
        if fits == 0 && !from.is_empty() || from.len() <= PIPE_BUF && fits < from.len() {
            return Err(would_block(blocking));
        }
        let count = from.len().min(fits);
        bytes.extend(&from[..count]);
        Ok(count)
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        self.0.ends.fetch_sub(1, Ordering::AcqRel);
    }
}

fn would_block(blocking: bool) -> i32 {
    if blocking { errno::DEADLK } else { errno::AGAIN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_bytes_in_order_until_writer_closes() {
        let (reader, writer) = pipe(1);
        let mut buffer = [0; 4];
        assert_eq!(reader.read(&mut buffer, true), Err(errno::DEADLK));
        assert_eq!(reader.read(&mut buffer, false), Err(errno::AGAIN));
        assert_eq!(writer.write(b"abcdef", true), Ok(6));
        assert_eq!(reader.read(&mut buffer, true), Ok(4));
        assert_eq!(&buffer, b"abcd");
        drop(writer);
        assert_eq!(reader.read(&mut buffer, true), Ok(2));
        assert_eq!(reader.read(&mut buffer, true), Ok(0));
    }

    #[test]
    fn limits_bytes_to_capacity() {
        let (reader, writer) = pipe(1);
        assert_eq!(writer.write(&[0; CAPACITY + 1], true), Ok(CAPACITY));
        assert_eq!(writer.write(b"x", true), Err(errno::DEADLK));
        assert_eq!(writer.write(b"x", false), Err(errno::AGAIN));
        assert!(!writer.is_writable());
        assert_eq!(reader.read(&mut [0; 100], true), Ok(100));
        assert_eq!(writer.write(&[0; 200], false), Err(errno::AGAIN), "a short write is atomic");
        assert_eq!(writer.write(&[0; 5000], false), Ok(100));
        drop(reader);
        assert_eq!(writer.write(b"x", true), Err(errno::PIPE));
    }
}

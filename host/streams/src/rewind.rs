//! An input that can be read once more from its beginning.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of input bytes that are remembered.
const REMEMBERED: usize = 1 << 20;

/// Recording of an input, for a second reader.
pub struct Rewind(Arc<Shared>);

struct Shared {
    inner: Mutex<Box<dyn Read + Send>>,
    /// Input that was read so far. Never locked while `inner` reads.
    read: Mutex<Memory>,
}

/// Input that was read so far.
enum Memory {
    /// All input so far, up to [`REMEMBERED`] bytes.
    Upto(Vec<u8>),
    /// All input so far, without a bound, because a second reader exists.
    All(Vec<u8>),
    /// More than [`REMEMBERED`] bytes were read, and none are kept.
    Lost,
}

impl Rewind {
    /// Returns the reader for `inner`, and the recording of its input.
    #[must_use]
    pub fn new(inner: Box<dyn Read + Send>) -> (Box<dyn Read + Send>, Self) {
        let read = Mutex::new(Memory::Upto(Vec::new()));
        let shared = Arc::new(Shared { inner: Mutex::new(inner), read });
        (Box::new(Reading { shared: Arc::clone(&shared), at: 0 }), Self(shared))
    }

    /// Returns the input that was read so far; `None` if it was too much to remember.
    #[must_use]
    pub fn read(&self) -> Option<Vec<u8>> {
        match &*self.0.memory() {
            Memory::Upto(read) | Memory::All(read) => Some(read.clone()),
            Memory::Lost => None,
        }
    }

    /// Returns a reader from the beginning of the input; `None` if too much was read to remember it.
    ///
    /// If the first reader is inside a read, the new reader waits for that read and returns its bytes as well.
    #[must_use]
    pub fn again(&self) -> Option<Box<dyn Read + Send>> {
        let mut memory = self.0.memory();
        match std::mem::replace(&mut *memory, Memory::Lost) {
            Memory::Upto(read) | Memory::All(read) => *memory = Memory::All(read),
            Memory::Lost => return None,
        }
        Some(Box::new(Reading { shared: Arc::clone(&self.0), at: 0 }))
    }
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the readers of a recorded input.
struct Reading {
    shared: Arc<Shared>,
    at: usize,
}

impl Reading {
    /// Copies remembered bytes that follow this reader's position into `into`, and returns their number.
    fn remembered(&mut self, into: &mut [u8]) -> usize {
        let memory = self.shared.memory();
        let (Memory::Upto(read) | Memory::All(read)) = &*memory else { return 0 };
        let rest = read.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        count
    }
}

impl Read for Reading {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let known = self.remembered(into);
        if known > 0 || into.is_empty() {
            return Ok(known);
        }
        let shared = Arc::clone(&self.shared);
        let mut inner = shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The other reader may have been in a read while this one waited.
        let known = self.remembered(into);
        if known > 0 {
            return Ok(known);
        }
        let count = inner.read(into)?;
        let mut memory = shared.memory();
        match &mut *memory {
            Memory::Upto(read) if read.len() + count <= REMEMBERED => read.extend_from_slice(&into[..count]),
            Memory::Upto(_) => *memory = Memory::Lost,
            Memory::All(read) => read.extend_from_slice(&into[..count]),
            Memory::Lost => {}
        }
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn what_was_read_is_read_again_and_then_goes_on() {
        let (mut first, rewind) = Rewind::new(Box::new(io::Cursor::new(b"abcdef".to_vec())));
        first.read_exact(&mut [0; 4]).expect("six are there");
        assert_eq!(rewind.read().as_deref(), Some(&b"abcd"[..]));
        let mut text = String::new();
        rewind.again().expect("it is little").read_to_string(&mut text).expect("a cursor reads");
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn it_is_remembered_up_to_a_bound() {
        let (mut reader, rewind) = Rewind::new(Box::new(io::repeat(7)));
        reader.read_exact(&mut vec![0; REMEMBERED]).expect("it never ends");
        assert_eq!(rewind.read().map(|read| read.len()), Some(REMEMBERED));
        reader.read_exact(&mut [0; 1]).expect("it never ends");
        assert_eq!((rewind.read(), rewind.again().is_none()), (None, true));
    }

    /// A reader that returns each piece when the test sends it.
    struct Told(mpsc::Receiver<&'static [u8]>);

    impl Read for Told {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.recv().unwrap_or_default();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn a_read_that_was_given_up_loses_nothing() {
        let (tell, told) = mpsc::channel();
        let (mut first, rewind) = Rewind::new(Box::new(Told(told)));
        let stuck = thread::spawn(move || first.read(&mut [0; 8]));
        let mut second = rewind.again().expect("nothing was read");
        tell.send(b"one").expect("somebody waits");
        assert_eq!(stuck.join().expect("no panic").ok(), Some(3));
        tell.send(b"two").expect("somebody waits");
        drop(tell);
        let mut text = String::new();
        second.read_to_string(&mut text).expect("it reads");
        assert_eq!(text, "onetwo");
    }
}

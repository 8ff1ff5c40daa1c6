//! An input that can be read once more from its beginning.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of input bytes that are remembered.
const MAX_RECORDED_BYTES: usize = 1 << 20;

/// Recording of an input, for a second reader.
pub(crate) struct InputRecording(Arc<Shared>);

struct Shared {
    inner: Mutex<Box<dyn Read + Send>>,
    /// Input that was read so far. Never locked while `inner` reads.
    read: Mutex<RecordedInput>,
}

/// Input that was read so far.
enum RecordedInput {
    /// All input so far, up to [`MAX_RECORDED_BYTES`] bytes.
    Bounded(Vec<u8>),
    /// All input so far, without a bound, because a second reader exists.
    Unbounded(Vec<u8>),
    /// More than [`MAX_RECORDED_BYTES`] bytes were read, and none are kept.
    Overflowed,
}

impl InputRecording {
    /// Returns the reader for `inner`, and the recording of its input.
    #[must_use]
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> (Box<dyn Read + Send>, Self) {
        let read = Mutex::new(RecordedInput::Bounded(Vec::new()));
        let shared = Arc::new(Shared { inner: Mutex::new(inner), read });
        (Box::new(RecordingReader { shared: Arc::clone(&shared), at: 0 }), Self(shared))
    }

    /// Returns the input that was read so far; `None` if it was too much to remember.
    #[must_use]
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        match &*self.0.recorded() {
            RecordedInput::Bounded(read) | RecordedInput::Unbounded(read) => Some(read.clone()),
            RecordedInput::Overflowed => None,
        }
    }

    /// Returns a reader from the beginning of the input; `None` if too much was read to remember it.
    ///
    /// If the first reader is inside a read, the new reader waits for that read and returns its bytes as well.
    #[must_use]
    pub(crate) fn replay(&self) -> Option<Box<dyn Read + Send>> {
        let mut recorded = self.0.recorded();
        match std::mem::replace(&mut *recorded, RecordedInput::Overflowed) {
            RecordedInput::Bounded(read) | RecordedInput::Unbounded(read) => *recorded = RecordedInput::Unbounded(read),
            RecordedInput::Overflowed => return None,
        }
        Some(Box::new(RecordingReader { shared: Arc::clone(&self.0), at: 0 }))
    }
}

impl Shared {
    fn recorded(&self) -> MutexGuard<'_, RecordedInput> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the readers of a recorded input.
struct RecordingReader {
    shared: Arc<Shared>,
    at: usize,
}

impl RecordingReader {
    /// Copies remembered bytes that follow this reader's position into `into`, and returns their number.
    fn read_recorded(&mut self, into: &mut [u8]) -> usize {
        let recorded = self.shared.recorded();
        let (RecordedInput::Bounded(read) | RecordedInput::Unbounded(read)) = &*recorded else { return 0 };
        let rest = read.get(self.at..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        count
    }
}

impl Read for RecordingReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let known = self.read_recorded(into);
        if known > 0 || into.is_empty() {
            return Ok(known);
        }
        let shared = Arc::clone(&self.shared);
        let mut inner = shared.inner.lock().unwrap_or_else(PoisonError::into_inner);
        // The other reader may have been in a read while this one waited.
        let known = self.read_recorded(into);
        if known > 0 {
            return Ok(known);
        }
        let count = inner.read(into)?;
        let mut recorded = shared.recorded();
        match &mut *recorded {
            RecordedInput::Bounded(read) if read.len() + count <= MAX_RECORDED_BYTES => {
                read.extend_from_slice(&into[..count])
            }
            RecordedInput::Bounded(_) => *recorded = RecordedInput::Overflowed,
            RecordedInput::Unbounded(read) => read.extend_from_slice(&into[..count]),
            RecordedInput::Overflowed => {}
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
    fn replays_input_and_continues() {
        let (mut first, recording) = InputRecording::new(Box::new(io::Cursor::new(b"abcdef".to_vec())));
        first.read_exact(&mut [0; 4]).expect("the input has six bytes");
        assert_eq!(recording.read().as_deref(), Some(&b"abcd"[..]));
        let mut text = String::new();
        recording
            .replay()
            .expect("the input is within the limit")
            .read_to_string(&mut text)
            .expect("the cursor is readable");
        assert_eq!(text, "abcdef");
    }

    #[test]
    fn records_input_up_to_limit() {
        let (mut reader, recording) = InputRecording::new(Box::new(io::repeat(7)));
        reader.read_exact(&mut vec![0; MAX_RECORDED_BYTES]).expect("the input is endless");
        assert_eq!(recording.read().map(|read| read.len()), Some(MAX_RECORDED_BYTES));
        reader.read_exact(&mut [0; 1]).expect("the input is endless");
        assert_eq!((recording.read(), recording.replay().is_none()), (None, true));
    }

    /// A reader that returns each piece when the test sends it.
    struct ChannelReader(mpsc::Receiver<&'static [u8]>);

    impl Read for ChannelReader {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.recv().unwrap_or_default();
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn abandoned_read_loses_no_input() {
        let (sender, receiver) = mpsc::channel();
        let (mut first, recording) = InputRecording::new(Box::new(ChannelReader(receiver)));
        let stuck = thread::spawn(move || first.read(&mut [0; 8]));
        let mut second = recording.replay().expect("the input is within the limit");
        sender.send(b"one").expect("the reader exists");
        assert_eq!(stuck.join().expect("no panic").ok(), Some(3));
        sender.send(b"two").expect("the reader exists");
        drop(sender);
        let mut text = String::new();
        second.read_to_string(&mut text).expect("it reads");
        assert_eq!(text, "onetwo");
    }
}

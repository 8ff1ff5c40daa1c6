//! A guest's standard output or error: kept within a cap, and shared out to whoever watches.

use std::time::{Duration, Instant};

use codebox_core::{ByteSize, CappedSink, Captured, Kept, Limit};

/// How long a guest may go on writing into the void before it is stopped.
///
/// A program that prints a little too much still ends by itself, and its last words are kept; one that floods does
/// not keep a processor busy for the rest of its time.
const GRACE: Duration = Duration::from_millis(500);

/// One output stream.
pub struct Output {
    kept: CappedSink,
    room: Option<u64>,
    overflowed: Option<Instant>,
}

/// The stream's reader is gone, or the guest has had its say.
#[derive(Debug)]
pub enum WriteFailed {
    /// The receiver of live output does not take any more: a broken pipe.
    Closed,
    /// The guest kept on writing after its cap was reached.
    Flood,
}

impl Output {
    /// A stream that keeps at most `cap` bytes and passes at most as many on.
    pub fn new(cap: Limit<ByteSize>) -> Self {
        Self { kept: CappedSink::new(cap), room: cap.at().map(ByteSize::get), overflowed: None }
    }

    /// Takes what the guest wrote; tells how many of its first bytes are to be passed on.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteFailed> {
        let kept = self.kept.push(bytes);
        let fits = self.room.map_or(bytes.len(), |room| bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        if let Some(room) = &mut self.room {
            *room -= fits as u64;
        }
        if kept == Kept::Truncated && self.overflowed.get_or_insert_with(Instant::now).elapsed() > GRACE {
            return Err(WriteFailed::Flood);
        }
        Ok(fits)
    }

    /// What was kept.
    pub fn finish(self) -> Captured {
        self.kept.finish()
    }
}

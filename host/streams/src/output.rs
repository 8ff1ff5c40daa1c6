//! A guest's standard output or error, capped, with the part that is passed on to a reader.

use std::time::{Duration, Instant};

use codebox_core::{ByteSize, CappedSink, CapturedOutput, Completeness, Limit};

/// Time for which a guest may go on writing above its cap before it is stopped.
///
/// A program that prints slightly too much can still end by itself, and the end of its output is kept. A program that
/// floods its output does not keep a processor busy until its time limit.
const GRACE_PERIOD: Duration = Duration::from_millis(500);

/// One output stream.
pub struct Output {
    kept: CappedSink,
    remaining: Option<u64>,
    overflowed: Option<Instant>,
}

/// Reason to stop a guest that writes output.
#[derive(Debug)]
pub enum WriteError {
    /// The receiver of live output is closed, as for a broken pipe.
    Closed,
    /// The guest wrote on for too long after its cap was reached.
    Flood,
}

impl Output {
    /// Creates a stream that keeps at most `cap` bytes and passes at most as many on.
    pub fn new(cap: Limit<ByteSize>) -> Self {
        Self { kept: CappedSink::new(cap), remaining: cap.at().map(ByteSize::get), overflowed: None }
    }

    /// Takes bytes that the guest wrote, and returns the number of leading bytes to pass on.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, WriteError> {
        let kept = self.kept.push(bytes);
        let fits = self
            .remaining
            .map_or(bytes.len(), |remaining| bytes.len().min(usize::try_from(remaining).unwrap_or(usize::MAX)));
        if let Some(remaining) = &mut self.remaining {
            *remaining -= fits as u64;
        }
        if kept == Completeness::Truncated && self.overflowed.get_or_insert_with(Instant::now).elapsed() > GRACE_PERIOD
        {
            return Err(WriteError::Flood);
        }
        Ok(fits)
    }

    /// Returns the captured output.
    pub fn finish(self) -> CapturedOutput {
        self.kept.finish()
    }
}

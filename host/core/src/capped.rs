use crate::limits::{ByteSize, Limit};
use crate::report::CapturedOutput;

/// Output buffer with a cap: keeps the first and the last half-cap of bytes of a stream, and counts the rest.
///
/// Output that fits the cap is kept exactly. Memory use never exceeds the cap and grows only as output arrives. Every
/// backend uses this type, so that all of them truncate alike.
///
/// ```
/// use codebox_core::{ByteSize, CappedSink, Limit};
/// let mut sink = CappedSink::new(Limit::At(ByteSize::bytes(4)));
/// sink.push(b"abcdefgh");
/// let kept = sink.finish();
/// assert_eq!((kept.head.as_slice(), kept.tail.as_slice(), kept.dropped), (&b"ab"[..], &b"gh"[..], 4));
/// ```
#[derive(Debug, Clone)]
pub struct CappedSink {
    head: Vec<u8>,
    head_cap: usize,
    /// Ring buffer once it is full; `oldest` is the index of its first byte.
    tail: Vec<u8>,
    tail_cap: usize,
    oldest: usize,
    dropped: u64,
}

/// Completeness of the kept output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completeness {
    /// All output so far.
    All,
    /// A part of the output: the cap is exceeded, and bytes were dropped.
    Truncated,
}

impl CappedSink {
    /// Creates an empty sink that keeps at most `cap` bytes.
    #[must_use]
    pub fn new(cap: Limit<ByteSize>) -> Self {
        let (head_cap, tail_cap) = match cap {
            Limit::Unlimited => (usize::MAX, 0),
            Limit::At(size) => {
                let cap = size.as_len();
                (cap - cap / 2, cap / 2)
            }
        };
        Self { head: Vec::new(), head_cap, tail: Vec::new(), tail_cap, oldest: 0, dropped: 0 }
    }

    /// Appends the next bytes of the stream and returns the completeness of the kept output.
    pub fn push(&mut self, bytes: &[u8]) -> Completeness {
        let remaining = self.head_cap - self.head.len();
        let (to_head, rest) = bytes.split_at(bytes.len().min(remaining));
        append(&mut self.head, to_head, self.head_cap);
        if !rest.is_empty() {
            self.push_tail(rest);
        }
        self.kept()
    }

    /// Returns the completeness of the kept output.
    #[must_use]
    pub const fn kept(&self) -> Completeness {
        if self.dropped == 0 { Completeness::All } else { Completeness::Truncated }
    }

    /// Returns the number of bytes pushed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add((self.head.len() + self.tail.len()) as u64)
    }

    /// Returns the kept output.
    #[must_use]
    pub fn finish(mut self) -> CapturedOutput {
        self.tail.rotate_left(self.oldest);
        CapturedOutput { head: self.head, tail: self.tail, dropped: self.dropped }
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        // A write that is longer than the tail replaces all of it, and only the end of the write is kept.
        let skip = bytes.len().saturating_sub(self.tail_cap);
        let (skipped, bytes) = bytes.split_at(skip);
        self.dropped = self.dropped.saturating_add(skipped.len() as u64);
        let remaining = self.tail_cap - self.tail.len();
        let (fresh, overflow) = bytes.split_at(bytes.len().min(remaining));
        append(&mut self.tail, fresh, self.tail_cap);
        self.dropped = self.dropped.saturating_add(overflow.len() as u64);
        let until_end = self.tail.len() - self.oldest;
        let (here, wrapped) = overflow.split_at(overflow.len().min(until_end));
        self.tail[self.oldest..][..here.len()].copy_from_slice(here);
        self.tail[..wrapped.len()].copy_from_slice(wrapped);
        if !overflow.is_empty() {
            self.oldest = (self.oldest + overflow.len()) % self.tail.len();
        }
    }
}

/// Appends `bytes` without reserving more than `cap` in total, which doubling the capacity could exceed.
fn append(kept: &mut Vec<u8>, bytes: &[u8], cap: usize) {
    let needed = kept.len() + bytes.len();
    if needed > kept.capacity() {
        let wanted = needed.max(kept.capacity().saturating_mul(2)).max(1024).min(cap);
        kept.reserve_exact(wanted - kept.len());
    }
    kept.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;

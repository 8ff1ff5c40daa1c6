use crate::limits::{ByteSize, Limit};
use crate::report::Captured;

/// Keeps a stream's output within a cap: its first half-cap of bytes and its last, and counts the rest.
///
/// Exact while the output fits the cap. Holds at most the cap in memory, whatever is written, and grows only
/// as output comes. The one keeper for every backend, so that they all truncate alike.
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
    /// A ring once it is full; `oldest` is where its first byte is.
    tail: Vec<u8>,
    tail_cap: usize,
    oldest: usize,
    dropped: u64,
}

/// Whether a stream is still whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Nothing was dropped so far.
    All,
    /// Something was dropped: the cap is exceeded.
    Truncated,
}

impl CappedSink {
    /// An empty sink that keeps at most `cap`.
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

    /// Takes the next bytes of the stream, and says whether the stream is still whole.
    pub fn push(&mut self, bytes: &[u8]) -> Kept {
        let room = self.head_cap - self.head.len();
        let (to_head, rest) = bytes.split_at(bytes.len().min(room));
        append(&mut self.head, to_head, self.head_cap);
        if !rest.is_empty() {
            self.push_tail(rest);
        }
        self.kept()
    }

    /// Whether the stream is still whole.
    #[must_use]
    pub const fn kept(&self) -> Kept {
        if self.dropped == 0 { Kept::All } else { Kept::Truncated }
    }

    /// How many bytes were pushed.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dropped.saturating_add((self.head.len() + self.tail.len()) as u64)
    }

    /// What was kept.
    #[must_use]
    pub fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.oldest);
        Captured { head: self.head, tail: self.tail, dropped: self.dropped }
    }

    fn push_tail(&mut self, bytes: &[u8]) {
        // Of one long write only the end can stay, and all that was there before goes.
        let skip = bytes.len().saturating_sub(self.tail_cap);
        let (skipped, bytes) = bytes.split_at(skip);
        self.dropped = self.dropped.saturating_add(skipped.len() as u64);
        let room = self.tail_cap - self.tail.len();
        let (fresh, over) = bytes.split_at(bytes.len().min(room));
        append(&mut self.tail, fresh, self.tail_cap);
        self.dropped = self.dropped.saturating_add(over.len() as u64);
        let until_end = self.tail.len() - self.oldest;
        let (here, wrapped) = over.split_at(over.len().min(until_end));
        self.tail[self.oldest..][..here.len()].copy_from_slice(here);
        self.tail[..wrapped.len()].copy_from_slice(wrapped);
        if !over.is_empty() {
            self.oldest = (self.oldest + over.len()) % self.tail.len();
        }
    }
}

/// Appends without ever reserving more than `cap`, which doubling would.
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

//! Reader of archives that are not trusted.

use std::cell::Cell;
use std::io::{self, Read};

/// Maximum number of bytes before a member's data: its header, and the names and attributes that are too long for the header. They are
/// read as a whole, and compress to almost nothing.
pub const MAX_MEMBER_HEADER: u64 = 1 << 20;

/// Reader that fails when it exceeds a maximum number of bytes.
pub struct LimitedReader<'b, R> {
    inner: R,
    remaining: u64,
    header_budget: &'b Cell<u64>,
}

impl<'b, R: Read> LimitedReader<'b, R> {
    /// Limits a reader to `remaining` bytes, and to those of `header_budget`, which its user sets before each member.
    pub fn new(inner: R, remaining: u64, header_budget: &'b Cell<u64>) -> Self {
        Self { inner, remaining, header_budget }
    }
}

impl<R: Read> Read for LimitedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let remaining = self.remaining.checked_sub(count as u64);
        self.remaining = remaining.ok_or_else(|| io::Error::other("unpacked size exceeds the limit"))?;
        let header_budget = self.header_budget.get().checked_sub(count as u64);
        self.header_budget.set(header_budget.ok_or_else(|| io::Error::other("header of a member exceeds the limit"))?);
        Ok(count)
    }
}

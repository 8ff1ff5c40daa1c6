//! Numbers that nobody chose, from a seed that a failure tells.

use std::time::{SystemTime, UNIX_EPOCH};

/// A row of numbers that follows from its seed.
#[derive(Debug)]
pub struct Chance(u64);

impl Chance {
    /// A row that nobody has seen.
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::from(now.subsec_nanos()) ^ now.as_secs() << 30 ^ u64::from(std::process::id()) << 50)
    }

    /// The seed of what comes next.
    pub fn seed(&self) -> u64 {
        self.0
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound.max(1)
    }

    /// One of some values.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}

//! Pseudorandom numbers from a seed that failures report.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reproducible sequence of numbers from a seed.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a sequence from a fresh seed.
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::from(now.subsec_nanos()) ^ now.as_secs() << 30 ^ u64::from(std::process::id()) << 50)
    }

    /// Returns the seed of the numbers that follow.
    pub fn seed(&self) -> u64 {
        self.0
    }

    /// Returns the next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound.max(1)
    }

    /// Picks one of the values.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}

//! Estimate of the time that the compilation of modules takes.

use std::time::Duration;

/// Bytes of modules that a thread compiles in a second. Measured with Python's parts on x86-64.
const TYPICAL_RATE: f64 = 700_000.0;

/// Bytes at the typical speed that count like measured ones, because modules differ in speed.
const TYPICAL_BYTES: f64 = 10_000_000.0;

/// Threads beyond this number save no time.
const MAX_THREADS: usize = 8;

/// The modules that are left, and the speed of the compilation so far.
pub(super) struct Estimate {
    left: usize,
    bytes: f64,
    seconds: f64,
}

impl Estimate {
    /// Creates an estimate for modules of this total size.
    pub(super) fn new(bytes: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS);
        Self { left: bytes, bytes: TYPICAL_BYTES, seconds: TYPICAL_BYTES / (TYPICAL_RATE * threads as f64) }
    }

    /// Records that a module of this size was compiled in this time.
    pub(super) fn compiled(&mut self, bytes: usize, time: Duration) {
        self.left = self.left.saturating_sub(bytes);
        self.bytes += bytes as f64;
        self.seconds += time.as_secs_f64();
    }

    /// Returns the time left as words, such as `about 40 s left`. Estimates above ten seconds are multiples of five.
    pub(super) fn words(&self) -> String {
        let seconds = (self.left as f64 * self.seconds / self.bytes).ceil();
        let seconds = if seconds > 10.0 { (seconds / 5.0).ceil() * 5.0 } else { seconds.max(1.0) };
        format!("about {seconds} s left")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_measured_speed() {
        let mut estimate = Estimate::new(1_100_000_000);
        // 400 kB a second in the long run.
        estimate.compiled(1_000_000_000, Duration::from_secs(2500));
        let words = estimate.words();
        let seconds: u64 = words.split(' ').nth(1).and_then(|seconds| seconds.parse().ok()).expect("a number");
        assert!((245..=250).contains(&seconds) && seconds.is_multiple_of(5), "{words}");
        estimate.compiled(98_000_000, Duration::from_secs(245));
        assert_eq!(estimate.words(), "about 5 s left");
        estimate.compiled(98_000_000, Duration::ZERO);
        assert_eq!(estimate.words(), "about 1 s left");
    }
}

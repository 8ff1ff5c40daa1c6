//! The monotonic clock of a guest, which goes on after a restore where it was.

use std::time::{Duration, Instant};

use wasmtime_wasi::HostMonotonicClock;

/// Clock that starts at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuestClock {
    started: Instant,
    start: Duration,
}

impl GuestClock {
    /// Creates a clock that shows `start` now.
    pub(crate) fn starting_at(start: Duration) -> Self {
        Self { started: Instant::now(), start }
    }

    /// Returns the time that the clock shows.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.saturating_add(self.started.elapsed())
    }
}

impl HostMonotonicClock for GuestClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

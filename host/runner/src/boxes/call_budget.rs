//! Limit on the records of calls that a program of a box can add to the audit log.

use std::time::{Duration, Instant};

/// Number of calls that are recorded at any rate, about 10 MB of the log.
const BURST: u32 = 10_000;

/// Time after which one more call is recorded, so that a program that calls commands in a loop adds at most 90 MB a day.
const REFILL: Duration = Duration::from_secs(1);

/// Decides which calls have records, and counts the others.
#[derive(Debug)]
pub(super) struct CallBudget {
    left: u32,
    refilled: Instant,
    omitted: u64,
}

impl CallBudget {
    pub(super) fn new(now: Instant) -> Self {
        Self { left: BURST, refilled: now, omitted: 0 }
    }

    /// Returns the number of calls before this one that have no record, or `None` if this one gets none either.
    pub(super) fn take(&mut self, now: Instant) -> Option<u64> {
        let periods = now.saturating_duration_since(self.refilled).as_secs() / REFILL.as_secs();
        if periods > 0 {
            self.left = self.left.saturating_add(u32::try_from(periods).unwrap_or(u32::MAX)).min(BURST);
            self.refilled = now;
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(self.omitted())
            }
            None => {
                self.omitted += 1;
                None
            }
        }
    }

    /// Counts calls without a record, such as those of a record that could not be written.
    pub(super) fn add_omitted(&mut self, calls: u64) {
        self.omitted = self.omitted.saturating_add(calls);
    }

    /// Returns the number of calls without a record since it was last returned.
    pub(super) fn omitted(&mut self) -> u64 {
        std::mem::take(&mut self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_calls_above_the_rate() {
        let start = Instant::now();
        let mut budget = CallBudget::new(start);
        assert!((0..BURST).all(|_| budget.take(start) == Some(0)));
        assert!((0..7).all(|_| budget.take(start).is_none()));
        let later = start + 2 * REFILL;
        assert_eq!([budget.take(later), budget.take(later), budget.take(later)], [Some(7), Some(0), None]);
        assert_eq!([budget.omitted(), budget.omitted()], [1, 0]);
        let much_later = start + 10 * BURST * REFILL;
        assert_eq!((0..2 * BURST).filter(|_| budget.take(much_later).is_some()).count(), BURST as usize);
    }
}

//! Whether a job's private directories hold more than it may write.

use std::time::Duration;

use codebox_core::{LimitKind, Limits};
use codebox_files::{Ceiling, Dir, Used, measure};

/// The least time between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// The most that a file system adds for an entry: a block.
const ENTRY: u64 = 4096;

/// The directories, and how much may be in them.
pub(crate) struct Watch {
    dirs: Vec<Dir>,
    ceiling: Ceiling,
}

impl Watch {
    /// Nothing where neither bytes nor files are limited.
    pub(crate) fn over(dirs: Vec<Dir>, limits: &Limits) -> Option<Self> {
        let ceiling =
            Ceiling { bytes: limits.disk.at().map(|size| size.get()), entries: limits.files.at().map(u64::from) };
        (ceiling.bytes.is_some() || ceiling.entries.is_some()).then_some(Self { dirs, ceiling })
    }

    /// Looks again and again; ends when a limit is passed. The wait can be given up.
    pub(crate) async fn passed(&self) -> LimitKind {
        loop {
            let began = std::time::Instant::now();
            if let Some(kind) = self.look() {
                return kind;
            }
            // A tenth of the time at most, however much there is to look at.
            tokio::time::sleep(PAUSE.max(began.elapsed() * 9)).await;
        }
    }

    fn look(&self) -> Option<LimitKind> {
        let used = self.used();
        // What directories themselves take is no doing of the job's, and a file that is just as long as may be is no breach.
        let own = ENTRY.saturating_mul(used.entries.saturating_add(2));
        if self.ceiling.bytes.is_some_and(|most| used.bytes > most.saturating_add(own)) {
            return Some(LimitKind::Disk);
        }
        self.ceiling.entries.is_some_and(|most| used.entries > most).then_some(LimitKind::Files)
    }

    /// Whether there is no room left: what a job runs into whose writes fail.
    pub(crate) fn full(&self) -> Option<LimitKind> {
        let used = self.used();
        self.ceiling.bytes.is_some_and(|most| used.bytes >= most).then_some(LimitKind::Disk)
    }

    /// What is there now.
    pub(crate) fn used(&self) -> Used {
        let mut sum = Used::default();
        for dir in &self.dirs {
            // Up to twice the ceiling, so that what is a little over it is seen for what it is.
            let twice = Ceiling { bytes: self.ceiling.bytes.map(|most| most.saturating_mul(2)), ..self.ceiling };
            let used = measure(dir, twice);
            sum.bytes = sum.bytes.saturating_add(used.bytes);
            sum.entries = sum.entries.saturating_add(used.entries);
        }
        sum
    }
}

//! Enforcement of the limits on a job's private directories.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Denial, DenialKind, LimitKind, Limits};
use codebox_files::{Ceiling, Dir, Used, measure};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// Minimum pause between two measurements.
const PAUSE: Duration = Duration::from_millis(50);

/// Most bytes that a file system uses for an entry: one block.
const ENTRY: u64 = 4096;

/// Number of consecutive incomplete measurements after which the job is considered to hide data. A single measurement
/// may be incomplete, because directories are moved while they are measured.
const BLIND: u32 = 5;

/// The measurements of the directories, and their limits.
pub(crate) struct Watch {
    over: Arc<Over>,
    /// Time of the next measurement.
    next: Instant,
    looking: Option<JoinHandle<Look>>,
    /// Number of consecutive incomplete measurements.
    blind: u32,
    /// Number of unreadable directories, if they are the reason for ending the job.
    hidden: Option<u64>,
}

struct Over {
    dirs: Vec<Dir>,
    ceiling: Ceiling,
}

/// Result of a measurement.
struct Look {
    used: Used,
    took: Duration,
}

impl Watch {
    /// Creates a watch, or returns `None` if neither bytes nor files are limited.
    pub(crate) fn over(dirs: Vec<Dir>, limits: &Limits) -> Option<Self> {
        let ceiling =
            Ceiling { bytes: limits.disk.at().map(|size| size.get()), entries: limits.files.at().map(u64::from) };
        let over = Arc::new(Over { dirs, ceiling });
        (ceiling.bytes.is_some() || ceiling.entries.is_some()).then(|| Self {
            over,
            next: Instant::now() + PAUSE,
            looking: None,
            blind: 0,
            hidden: None,
        })
    }

    /// Measures repeatedly. Returns when a limit is exceeded, or when the job keeps directories from being measured.
    /// Cancel safe.
    pub(crate) async fn passed(&mut self) -> LimitKind {
        loop {
            if self.looking.is_none() {
                sleep_until(self.next).await;
            }
            if let Some(kind) = self.look().await {
                return kind;
            }
        }
    }

    /// Runs a measurement on a blocking thread, or waits for the one that is already running.
    async fn look(&mut self) -> Option<LimitKind> {
        let over = &self.over;
        let looking = self.looking.get_or_insert_with(|| {
            let over = Arc::clone(over);
            spawn_blocking(move || {
                let began = std::time::Instant::now();
                Look { used: over.used(), took: began.elapsed() }
            })
        });
        let looked = looking.await;
        self.looking = None;
        // A measurement that panicked has seen nothing.
        let Look { used, took } =
            looked.unwrap_or(Look { used: Used { unseen: 1, ..Used::default() }, took: Duration::ZERO });
        // Measuring takes at most a tenth of the time, however large the directories are.
        self.next = Instant::now() + PAUSE.max(took * 9);
        self.judge(&used)
    }

    /// Returns the limit that is exceeded, or may be exceeded.
    fn judge(&mut self, used: &Used) -> Option<LimitKind> {
        self.blind = if used.unseen > 0 { self.blind + 1 } else { 0 };
        let passed = self.over.passed(used);
        if passed.is_none() && self.blind >= BLIND {
            self.hidden = Some(used.unseen);
            return Some(if self.over.ceiling.bytes.is_some() { LimitKind::Disk } else { LimitKind::Files });
        }
        passed
    }

    /// Measures the directories after the end of the job. No measurement is running when the function returns.
    pub(crate) async fn left(&mut self) -> Left {
        // Two measurements must not overlap: each opens closed directories and closes them again.
        if let Some(looking) = self.looking.take() {
            let _ = looking.await;
        }
        let over = Arc::clone(&self.over);
        let used = spawn_blocking(move || over.used()).await.unwrap_or(Used { unseen: 1, ..Used::default() });
        let full = self.over.ceiling.bytes.is_some_and(|most| used.bytes >= most).then_some(LimitKind::Disk);
        Left { full, bytes: (used.unseen == 0).then_some(used.bytes) }
    }

    /// Returns the denial for a job that was ended because it kept directories from being measured.
    pub(crate) fn denial(&self) -> Option<Denial> {
        let count = self.hidden?;
        Some(Denial {
            what: DenialKind::Fs,
            detail: format!("{count} directories cannot be read, so their size is unknown"),
            hint: "keep directories readable by their owner, and create fewer of them".to_owned(),
        })
    }
}

/// Content of a job's directories at its end.
pub(crate) struct Left {
    /// The limit that leaves no room, if any. Writes of the job may have failed because of it.
    pub full: Option<LimitKind>,
    /// The size of the content in bytes, if all of it was measured.
    pub bytes: Option<u64>,
}

impl Over {
    fn passed(&self, used: &Used) -> Option<LimitKind> {
        // The job is not responsible for the size of directories, and a file may be exactly as long as the limit.
        let own = ENTRY.saturating_mul(used.entries.saturating_add(2));
        if self.ceiling.bytes.is_some_and(|most| used.bytes > most.saturating_add(own)) {
            return Some(LimitKind::Disk);
        }
        self.ceiling.entries.is_some_and(|most| used.entries > most).then_some(LimitKind::Files)
    }

    fn used(&self) -> Used {
        let mut sum = Used::default();
        for dir in &self.dirs {
            // Measured up to twice the ceiling, so that a total slightly above it is measured completely.
            let twice = Ceiling { bytes: self.ceiling.bytes.map(|most| most.saturating_mul(2)), ..self.ceiling };
            let used = measure(dir, twice);
            sum.bytes = sum.bytes.saturating_add(used.bytes);
            sum.entries = sum.entries.saturating_add(used.entries);
            sum.unseen = sum.unseen.saturating_add(used.unseen);
        }
        sum
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;

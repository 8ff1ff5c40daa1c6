//! Enforcement of the limits on a job's private directories.

use std::sync::Arc;
use std::time::Duration;

use codebox_core::{Denial, DenialKind, LimitKind, Limits};
use codebox_files::{Dir, DiskUsage, UsageLimits, measure};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// Minimum pause between two measurements.
const PAUSE: Duration = Duration::from_millis(50);

/// Most bytes that a file system uses for an entry: one block.
const MAX_ENTRY_SIZE: u64 = 4096;

/// Number of consecutive incomplete measurements after which the job is considered to hide data. A single measurement
/// may be incomplete, because directories are moved while they are measured.
const MAX_INCOMPLETE: u32 = 5;

/// The measurements of the directories, and their limits.
pub(crate) struct Watch {
    over: Arc<WatchedDirs>,
    /// Time of the next measurement.
    next: Instant,
    measuring: Option<JoinHandle<Measurement>>,
    /// Number of consecutive incomplete measurements.
    incomplete_count: u32,
    /// Number of unreadable directories, if they are the reason for ending the job.
    hidden: Option<u64>,
}

struct WatchedDirs {
    dirs: Vec<Dir>,
    /// Limits, with the usage of the inputs added.
    ceiling: UsageLimits,
    /// Bytes of the inputs, which the job has not written.
    inputs: u64,
}

/// Result of a measurement.
struct Measurement {
    used: DiskUsage,
    took: Duration,
}

impl Watch {
    /// Creates a watch, or returns `None` if neither bytes nor files are limited.
    pub(crate) fn over(dirs: Vec<Dir>, limits: &Limits) -> Option<Self> {
        let ceiling =
            UsageLimits { bytes: limits.disk.at().map(|size| size.get()), entries: limits.files.at().map(u64::from) };
        let over = Arc::new(WatchedDirs { dirs, ceiling, inputs: 0 });
        (ceiling.bytes.is_some() || ceiling.entries.is_some()).then(|| Self {
            over,
            next: Instant::now() + PAUSE,
            measuring: None,
            incomplete_count: 0,
            hidden: None,
        })
    }

    /// Excludes the present content of the directories, the inputs of the job, from its usage.
    pub(crate) fn without_inputs(mut self) -> Self {
        if let Some(over) = Arc::get_mut(&mut self.over) {
            let inputs = over.used();
            let UsageLimits { bytes, entries } = over.ceiling;
            over.inputs = inputs.bytes;
            over.ceiling = UsageLimits {
                bytes: bytes.map(|most| most.saturating_add(inputs.bytes)),
                entries: entries.map(|most| most.saturating_add(inputs.entries)),
            };
        }
        self
    }

    /// Measures repeatedly. Returns when a limit is exceeded, or when the job keeps directories from being measured.
    /// Cancel safe.
    pub(crate) async fn exceeded(&mut self) -> LimitKind {
        loop {
            if self.measuring.is_none() {
                sleep_until(self.next).await;
            }
            if let Some(kind) = self.measure_once().await {
                return kind;
            }
        }
    }

    /// Runs a measurement on a blocking thread, or waits for the one that is already running.
    async fn measure_once(&mut self) -> Option<LimitKind> {
        let over = &self.over;
        let measuring = self.measuring.get_or_insert_with(|| {
            let over = Arc::clone(over);
            spawn_blocking(move || {
                let began = std::time::Instant::now();
                Measurement { used: over.used(), took: began.elapsed() }
            })
        });
        let measured = measuring.await;
        self.measuring = None;
        // A measurement that panicked has seen nothing.
        let Measurement { used, took } = measured
            .unwrap_or(Measurement { used: DiskUsage { unreadable: 1, ..DiskUsage::default() }, took: Duration::ZERO });
        // Measuring takes at most a tenth of the time, however large the directories are.
        self.next = Instant::now() + PAUSE.max(took * 9);
        self.judge(&used)
    }

    /// Returns the limit that is exceeded, or may be exceeded.
    fn judge(&mut self, used: &DiskUsage) -> Option<LimitKind> {
        self.incomplete_count = if used.unreadable > 0 { self.incomplete_count + 1 } else { 0 };
        let exceeded = self.over.exceeded(used);
        if exceeded.is_none() && self.incomplete_count >= MAX_INCOMPLETE {
            self.hidden = Some(used.unreadable);
            return Some(if self.over.ceiling.bytes.is_some() { LimitKind::Disk } else { LimitKind::Files });
        }
        exceeded
    }

    /// Measures the directories after the end of the job. No measurement is running when the function returns.
    pub(crate) async fn final_usage(&mut self) -> FinalUsage {
        // Two measurements must not overlap: each opens closed directories and closes them again.
        if let Some(measuring) = self.measuring.take() {
            let _ = measuring.await;
        }
        let over = Arc::clone(&self.over);
        let used =
            spawn_blocking(move || over.used()).await.unwrap_or(DiskUsage { unreadable: 1, ..DiskUsage::default() });
        let full = self.over.ceiling.bytes.is_some_and(|most| used.bytes >= most).then_some(LimitKind::Disk);
        let exceeded = self.over.exceeded(&used);
        FinalUsage {
            full,
            exceeded,
            bytes: (used.unreadable == 0).then(|| used.bytes.saturating_sub(self.over.inputs)),
        }
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
pub(crate) struct FinalUsage {
    /// The limit that is reached, if any. Writes of the job may have failed because of it.
    pub full: Option<LimitKind>,
    /// The limit that is exceeded, if any. A job may have ended before a measurement.
    pub exceeded: Option<LimitKind>,
    /// The size of the content in bytes, if all of it was measured.
    pub bytes: Option<u64>,
}

impl WatchedDirs {
    fn exceeded(&self, used: &DiskUsage) -> Option<LimitKind> {
        // The job is not responsible for the size of directories, and a file may be exactly as long as the limit.
        let own = MAX_ENTRY_SIZE.saturating_mul(used.entries.saturating_add(2));
        if self.ceiling.bytes.is_some_and(|most| used.bytes > most.saturating_add(own)) {
            return Some(LimitKind::Disk);
        }
        self.ceiling.entries.is_some_and(|most| used.entries > most).then_some(LimitKind::Files)
    }

    fn used(&self) -> DiskUsage {
        let mut sum = DiskUsage::default();
        for dir in &self.dirs {
            // Measured up to twice the ceiling, so that a total slightly above it is measured completely.
            let twice = UsageLimits { bytes: self.ceiling.bytes.map(|most| most.saturating_mul(2)), ..self.ceiling };
            let used = measure(dir, twice);
            sum.bytes = sum.bytes.saturating_add(used.bytes);
            sum.entries = sum.entries.saturating_add(used.entries);
            sum.unreadable = sum.unreadable.saturating_add(used.unreadable);
        }
        sum
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;

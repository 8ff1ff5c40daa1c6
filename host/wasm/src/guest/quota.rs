//! Quotas on a guest's file operations: bytes written, files created, files open.

use codebox_core::LimitKind;

/// A refusal. The guest receives an error number, and the quota records the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaExceeded;

/// The counts of one guest and their limits, where `None` is unlimited.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quota {
    pub disk: Option<u64>,
    pub files: Option<u64>,
    pub open_files: Option<u64>,
    written: u64,
    created: u64,
    changed: bool,
    /// Bytes written and files created before the current job, in a guest that runs several.
    earlier: (u64, u64),
    open: u64,
    denied: Vec<LimitKind>,
}

impl Quota {
    pub(crate) fn new(disk: Option<u64>, files: Option<u64>, open_files: Option<u64>) -> Self {
        Self { disk, files, open_files, ..Self::default() }
    }

    /// Counts a write of `bytes`. They count even if the write then fails, because it may have been partial.
    pub(crate) fn write(&mut self, bytes: u64) -> Result<(), QuotaExceeded> {
        charge(&mut self.written, self.disk, bytes).map_err(|()| self.deny(LimitKind::Disk))
    }

    /// Records a change to a file or directory, counted or not.
    pub(crate) fn record_change(&mut self) {
        self.changed = true;
    }

    /// Counts the creation of a file, directory or link.
    pub(crate) fn count_creation(&mut self) -> Result<(), QuotaExceeded> {
        charge(&mut self.created, self.files, 1).map_err(|()| self.deny(LimitKind::Files))
    }

    /// Reverts the last counted creation, which failed.
    pub(crate) fn uncount_creation(&mut self) {
        self.created = self.created.saturating_sub(1).max(self.earlier.1);
    }

    /// Counts the open of a file or directory.
    pub(crate) fn open(&mut self) -> Result<(), QuotaExceeded> {
        charge(&mut self.open, self.open_files, 1).map_err(|()| self.deny(LimitKind::OpenFiles))
    }

    /// Reverts the count of an open that failed, or of a descriptor that was closed.
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Returns the number of descriptors that the guest has open.
    pub(crate) fn open_count(&self) -> u64 {
        self.open
    }

    /// Returns the number of bytes that the current job has requested to write.
    pub(crate) fn written(&self) -> u64 {
        self.written - self.earlier.0
    }

    /// Returns true if the current job may have changed files on disk.
    pub(crate) fn touched_disk(&self) -> bool {
        self.changed || self.written > self.earlier.0 || self.created > self.earlier.1
    }

    /// Returns the numbers of bytes written and of files created by all jobs of the guest.
    #[cfg(target_os = "linux")]
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.written, self.created)
    }

    /// Continues from the numbers of a guest that was saved.
    #[cfg(target_os = "linux")]
    pub(crate) fn continue_from(&mut self, (written, created): (u64, u64)) {
        (self.written, self.created, self.earlier) = (written, created, (written, created));
    }

    /// Starts a further job of the same guest. The limits apply to all of its jobs together.
    pub(crate) fn start_job(&mut self) {
        (self.earlier, self.changed) = ((self.written, self.created), false);
        self.denied.clear();
    }

    /// Forgets all changes so far. The files that are open stay counted.
    pub(crate) fn forget_changes(&mut self) {
        (self.written, self.created, self.changed, self.earlier) = (0, 0, false, (0, 0));
    }

    /// Returns the limits that the guest has reached, each once.
    pub(crate) fn denied(&self) -> &[LimitKind] {
        &self.denied
    }

    fn deny(&mut self, kind: LimitKind) -> QuotaExceeded {
        if !self.denied.contains(&kind) {
            self.denied.push(kind);
        }
        QuotaExceeded
    }
}

fn charge(used: &mut u64, limit: Option<u64>, more: u64) -> Result<(), ()> {
    let total = used.saturating_add(more);
    if limit.is_some_and(|limit| total > limit) {
        return Err(());
    }
    *used = total;
    Ok(())
}

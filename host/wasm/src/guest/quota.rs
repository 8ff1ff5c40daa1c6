//! Quotas on what a guest does to files: bytes written, files made, files open.

use codebox_core::LimitKind;

/// A refusal, which the guest is told of with an error number; the quota remembers which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Denied;

/// The counts of one guest and their ceilings; no ceiling is no limit.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    pub disk: Option<u64>,
    pub files: Option<u64>,
    pub open_files: Option<u64>,
    written: u64,
    made: u64,
    changed: bool,
    open: u64,
    denied: Vec<LimitKind>,
}

impl Quota {
    pub(crate) fn new(disk: Option<u64>, files: Option<u64>, open_files: Option<u64>) -> Self {
        Self { disk, files, open_files, ..Self::default() }
    }

    /// Asks to write `bytes`; they count even when the write then fails, as it may have been partial.
    pub(crate) fn write(&mut self, bytes: u64) -> Result<(), Denied> {
        take(&mut self.written, self.disk, bytes).map_err(|()| self.deny(LimitKind::Disk))
    }

    /// Hears of any change to a file or directory, counted or not.
    pub(crate) fn change(&mut self) {
        self.changed = true;
    }

    /// Asks to make a file, directory or link.
    pub(crate) fn make(&mut self) -> Result<(), Denied> {
        take(&mut self.made, self.files, 1).map_err(|()| self.deny(LimitKind::Files))
    }

    /// Tells that what was asked for last was not made.
    pub(crate) fn unmake(&mut self) {
        self.made = self.made.saturating_sub(1);
    }

    /// Asks to open a file or directory.
    pub(crate) fn open(&mut self) -> Result<(), Denied> {
        take(&mut self.open, self.open_files, 1).map_err(|()| self.deny(LimitKind::OpenFiles))
    }

    /// Tells that an open failed or that a descriptor was closed.
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Descriptors that the guest has open now.
    pub(crate) fn opened(&self) -> u64 {
        self.open
    }

    /// Bytes the guest asked to write.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Whether the guest may have changed anything on disk.
    pub(crate) fn touched_disk(&self) -> bool {
        self.changed || self.written > 0 || self.made > 0
    }

    /// The limits the guest ran into, each once.
    pub(crate) fn denied(&self) -> &[LimitKind] {
        &self.denied
    }

    fn deny(&mut self, kind: LimitKind) -> Denied {
        if !self.denied.contains(&kind) {
            self.denied.push(kind);
        }
        Denied
    }
}

fn take(used: &mut u64, limit: Option<u64>, more: u64) -> Result<(), ()> {
    let total = used.saturating_add(more);
    if limit.is_some_and(|limit| total > limit) {
        return Err(());
    }
    *used = total;
    Ok(())
}

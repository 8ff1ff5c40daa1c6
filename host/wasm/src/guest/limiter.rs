//! Counts what a store's memories and tables hold, and says no beyond the limit.

use wasmtime::ResourceLimiter;

/// Entries that all tables of a guest may have together.
const TABLE_ENTRIES: usize = 1 << 20;

/// Instances, tables and memories that a component may have; one that an adapter made has about five instances.
const COMPONENT_PARTS: usize = 32;

/// Sums the memory of one store.
///
/// A refused growth is not a trap: the guest sees its allocation fail and may go on, as it would natively. That it
/// happened is remembered, so that a program that dies of it can be told from one that fails by itself.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    limit: Option<u64>,
    memory: u64,
    peak: u64,
    tables: usize,
    denials: u64,
    /// Whether a memory's first bytes are counted already, as an image's.
    imaged: bool,
}

impl MemoryLimiter {
    /// A limiter for a guest that starts with an image of `start` bytes.
    pub(crate) fn new(limit: Option<u64>, start: u64) -> Self {
        Self { limit, memory: start, peak: start, tables: 0, denials: 0, imaged: true }
    }

    /// A limiter for a component, which makes its memory itself, and is several instances of modules.
    pub(crate) fn of_component(limit: Option<u64>) -> Self {
        Self { imaged: false, ..Self::new(limit, 0) }
    }

    /// The most bytes the guest has held.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Whether the guest was told of its limit, and may keep to it before the host has to.
    pub(crate) fn is_known_to_guest(&self) -> bool {
        !self.imaged && self.limit.is_some()
    }

    /// How often the guest wanted more than it may have.
    pub(crate) fn denials(&self) -> u64 {
        self.denials
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if current == 0 && self.imaged {
            // The memory's creation: its bytes are the image's, counted at the start.
            return Ok(true);
        }
        let total = self.memory.saturating_add((desired - current) as u64);
        if self.limit.is_some_and(|limit| total > limit) {
            self.denials += 1;
            return Ok(false);
        }
        self.memory = total;
        self.peak = self.peak.max(total);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.tables.saturating_add(desired - current);
        if total > TABLE_ENTRIES {
            return Ok(false);
        }
        self.tables = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        if self.imaged { 1 } else { COMPONENT_PARTS }
    }

    fn tables(&self) -> usize {
        if self.imaged { 4 } else { COMPONENT_PARTS }
    }

    fn memories(&self) -> usize {
        if self.imaged { 1 } else { COMPONENT_PARTS }
    }
}

//! Counts the memories and tables of a store, and denies growth beyond the limit.

use wasmtime::ResourceLimiter;

use crate::code::MAX_PARTS;

/// Maximum number of entries in all tables of a guest together.
const MAX_TABLE_ENTRIES: usize = 1 << 20;

/// Maximum number of instances, of tables and of memories of a component. A component made with an adapter has about
/// five instances.
const MAX_COMPONENT_PARTS: usize = 32;

/// Limiter of the total memory of one store.
///
/// A denied growth is not a trap: the guest's allocation fails and the guest may continue, as it would natively. The
/// limiter counts the denials, so that a program that ends because of the limit can be distinguished from one that
/// fails for another reason.
#[derive(Debug, Clone)]
pub(crate) struct MemoryLimiter {
    limit: Option<u64>,
    memory: u64,
    peak: u64,
    tables: usize,
    denials: u64,
    /// True if the initial bytes of the memory are already counted, as for an image.
    imaged: bool,
}

impl MemoryLimiter {
    /// Creates a limiter for a guest that starts with an image of `start` bytes.
    pub(crate) fn new(limit: Option<u64>, start: u64) -> Self {
        Self { limit, memory: start, peak: start, tables: 0, denials: 0, imaged: true }
    }

    /// Creates a limiter for a component, which creates its memory itself and consists of several module instances.
    pub(crate) fn for_component(limit: Option<u64>) -> Self {
        Self { imaged: false, ..Self::new(limit, 0) }
    }

    /// Starts a further job of the same guest.
    pub(crate) fn start_job(&mut self) {
        (self.peak, self.denials) = (self.memory, 0);
    }

    /// Returns the peak memory in bytes.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// Returns true if the guest knows its limit and may enforce it before the host does.
    pub(crate) fn is_known_to_guest(&self) -> bool {
        !self.imaged && self.limit.is_some()
    }

    /// Returns the number of denied requests for memory.
    pub(crate) fn denials(&self) -> u64 {
        self.denials
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if current == 0 && self.imaged {
            // This call creates the memory. Its bytes are those of the image, which were counted at the start.
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
        if total > MAX_TABLE_ENTRIES {
            return Ok(false);
        }
        self.tables = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        // The primary module has an instance, and so has each later part of the code.
        if self.imaged { MAX_PARTS } else { MAX_COMPONENT_PARTS }
    }

    fn tables(&self) -> usize {
        if self.imaged { 4 } else { MAX_COMPONENT_PARTS }
    }

    fn memories(&self) -> usize {
        if self.imaged { 1 } else { MAX_COMPONENT_PARTS }
    }
}

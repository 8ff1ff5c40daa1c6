//! Pool of regions, kept between jobs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::WasmError;
use crate::image::MemoryImage;
use crate::region::{Lease, Region, ResetVerification};

/// Flag that is set if a guest ended in a state that permits reuse of its region.
///
/// By default, a region is discarded: a guest that trapped, reached a limit or was cancelled left its memory in an
/// unknown state.
#[derive(Default)]
pub(crate) struct ReuseFlag {
    is_clean: AtomicBool,
    is_forbidden: AtomicBool,
}

impl ReuseFlag {
    /// Records that the guest returned to the host by itself.
    pub(crate) fn mark_clean(&self) {
        self.is_clean.store(true, Ordering::Relaxed);
    }

    /// Records that a reset would not restore the region, however the guest ends.
    #[cfg(target_os = "linux")]
    pub(crate) fn forbid(&self) {
        self.is_forbidden.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.is_clean.load(Ordering::Relaxed) && !self.is_forbidden.load(Ordering::Relaxed)
    }
}

/// Regions that a pool keeps after their jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    /// At most this number of regions, for later jobs.
    Regions(usize),
    /// All regions, until the process ends: it runs one job, and unmapping its memory would delay its end.
    UntilExit,
}

/// Regions of one memory image, ready for the next job.
pub(crate) struct RegionPool {
    image: Arc<MemoryImage>,
    idle: Mutex<Vec<Region>>,
    capacity: Capacity,
    verification: Arc<ResetVerification>,
    mapped: AtomicU64,
    reused: AtomicU64,
}

impl RegionPool {
    /// Creates a pool that keeps regions up to its capacity.
    pub(crate) fn new(image: Arc<MemoryImage>, capacity: Capacity, verification: Arc<ResetVerification>) -> Arc<Self> {
        let idle = Mutex::default();
        Arc::new(Self { image, idle, capacity, verification, mapped: AtomicU64::new(0), reused: AtomicU64::new(0) })
    }

    /// Returns the image of this pool's regions.
    pub(crate) fn image(&self) -> &Arc<MemoryImage> {
        &self.image
    }

    /// Leases a region: an idle one if there is one, otherwise a newly mapped one.
    pub(crate) fn lease(self: &Arc<Self>, minimum: usize, reuse_flag: Arc<ReuseFlag>) -> Result<Lease, WasmError> {
        let idle = self.idle().pop();
        let mut region = match idle {
            Some(region) => {
                self.reused.fetch_add(1, Ordering::Relaxed);
                region
            }
            None => {
                self.mapped.fetch_add(1, Ordering::Relaxed);
                Region::map(self.image.clone())?
            }
        };
        region.record_lease();
        Ok(Lease { region, minimum, pool: self.clone(), reuse_flag })
    }

    /// Leases a newly mapped region, whose memory is changed by `restore`. It is not used again.
    #[cfg(target_os = "linux")]
    pub(crate) fn lease_restored(
        self: &Arc<Self>,
        minimum: usize,
        restore: impl FnOnce(&mut Region) -> Result<(), WasmError>,
    ) -> Result<Lease, WasmError> {
        self.mapped.fetch_add(1, Ordering::Relaxed);
        let mut region = Region::map_without_memory(self.image.clone())?;
        restore(&mut region)?;
        Ok(Lease { region, minimum, pool: self.clone(), reuse_flag: Arc::default() })
    }

    /// Resets a region and keeps it. The region is unmapped if the pool is full, or if the reset or its verification
    /// fails.
    pub(crate) fn release(&self, mut region: Region) {
        debug_assert!(Arc::ptr_eq(region.image(), &self.image), "a region was released to the pool of another image");
        let has_capacity = matches!(self.capacity, Capacity::Regions(count) if self.idle().len() < count);
        if has_capacity && region.reset().is_ok() && self.verification.accepts(&mut region) {
            self.idle().push(region);
        } else {
            self.discard(region);
        }
    }

    /// Maps a region for a later job.
    pub(crate) fn map_ahead(&self) -> Result<(), WasmError> {
        let region = Region::map(self.image.clone())?;
        self.idle().push(region);
        Ok(())
    }

    /// Unmaps the idle regions.
    #[cfg(target_os = "linux")]
    pub(crate) fn unmap_idle(&self) {
        self.idle().clear();
    }

    /// Disposes of a region that no job may use again.
    pub(crate) fn discard(&self, region: Region) {
        if self.capacity == Capacity::UntilExit {
            std::mem::forget(region);
        }
    }

    /// Returns the pages that the last job of an idle region wrote, as addresses and lengths in ascending order. Empty if
    /// there is no such region, or on systems that cannot find the pages.
    pub(crate) fn hot_pages(&self) -> Vec<(u32, u32)> {
        self.idle().last().map_or_else(Vec::new, Region::hot_pages)
    }

    /// Returns the numbers of regions mapped and reused so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.mapped.load(Ordering::Relaxed), self.reused.load(Ordering::Relaxed))
    }

    /// Returns true if every idle region equals the image, byte by byte.
    pub(crate) fn idle_regions_equal_image(&self) -> bool {
        self.idle().iter_mut().all(Region::equals_image)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Region>> {
        // A panic while the lock was held leaves a list of complete regions, since no operation on the list can stop
        // halfway.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

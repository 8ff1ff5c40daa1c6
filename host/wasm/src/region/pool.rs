//! Keeps regions between jobs.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::WasmError;
use crate::image::MemoryImage;
use crate::region::{Lease, Region, ResetVerification};

/// Whether a guest ended in a way that lets its region be used again.
///
/// A region is thrown away unless somebody says otherwise: a guest that trapped, hit a limit or was cancelled left
/// its memory in a state that nobody vouches for.
#[derive(Default)]
pub(crate) struct Fate(AtomicBool);

impl Fate {
    /// Says that the guest returned to the host by itself.
    pub(crate) fn clean(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Regions of one memory image, ready for the next job.
pub(crate) struct RegionPool {
    image: Arc<MemoryImage>,
    idle: Mutex<Vec<Region>>,
    capacity: usize,
    verification: Arc<ResetVerification>,
    mapped: AtomicU64,
    reused: AtomicU64,
}

impl RegionPool {
    /// A pool that keeps at most `capacity` idle regions.
    pub(crate) fn new(image: Arc<MemoryImage>, capacity: usize, verification: Arc<ResetVerification>) -> Arc<Self> {
        let idle = Mutex::new(Vec::with_capacity(capacity));
        Arc::new(Self { image, idle, capacity, verification, mapped: AtomicU64::new(0), reused: AtomicU64::new(0) })
    }

    /// The image that this pool's regions hold.
    pub(crate) fn image(&self) -> &Arc<MemoryImage> {
        &self.image
    }

    /// Lends a region: a reset one where there is one, a freshly mapped one otherwise.
    pub(crate) fn lease(self: &Arc<Self>, minimum: usize, fate: Arc<Fate>) -> Result<Lease, WasmError> {
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
        region.lend();
        Ok(Lease { region, minimum, pool: self.clone(), fate })
    }

    /// Resets a region and keeps it; one that cannot be reset whole, or is one too many, is unmapped.
    pub(crate) fn take_back(&self, mut region: Region) {
        debug_assert!(Arc::ptr_eq(region.image(), &self.image), "a region went back to another image's pool");
        let has_room = self.idle().len() < self.capacity;
        if has_room && region.reset().is_ok() && self.verification.accepts(&mut region) {
            self.idle().push(region);
        }
    }

    /// Regions mapped and regions reused so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.mapped.load(Ordering::Relaxed), self.reused.load(Ordering::Relaxed))
    }

    /// Compares every idle region with the image, byte by byte.
    pub(crate) fn idle_regions_equal_image(&self) -> bool {
        self.idle().iter_mut().all(Region::equals_image)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Region>> {
        // A panic while the list was held leaves a list of whole regions: nothing in here can stop halfway.
        self.idle.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

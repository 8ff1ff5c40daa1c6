//! Regions: the address space of one guest's memory, mapped from a memory image and reset after a job.

mod creator;
mod pool;
#[cfg(target_os = "linux")]
mod reset;
mod stack;
mod verify;

pub(crate) use creator::{Lease, RegionCreator, with_lease};
pub(crate) use pool::{Capacity, RegionPool, ReuseFlag};
pub(crate) use stack::StackPool;
pub use verify::ResetChecks;
pub(crate) use verify::ResetVerification;

#[cfg(target_os = "linux")]
use std::fs::File;
use std::sync::Arc;

use crate::engine::{MEMORY_GUARD_SIZE, MEMORY_RESERVATION};
use crate::error::WasmError;
use crate::image::MemoryImage;
use crate::sys::Reservation;

/// Address space for one memory: an image's bytes, space for growth, and a guard.
pub(crate) struct Region {
    space: Reservation,
    image: Arc<MemoryImage>,
    accessible: usize,
    /// The effects of earlier jobs on the region.
    #[cfg(target_os = "linux")]
    history: reset::History,
}

impl Region {
    /// Maps an image into new address space, and gives memory to the pages that every job writes.
    pub(crate) fn map(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        #[cfg(target_os = "linux")]
        {
            let mut region = Self::map_without_memory(image)?;
            region.populate_hot_pages();
            Ok(region)
        }
        #[cfg(not(target_os = "linux"))]
        Self::map_without_memory(image)
    }

    /// Gives memory of its own to the pages that every job writes. Without it, each of them is read when the guest first writes
    /// to it.
    #[cfg(target_os = "linux")]
    pub(crate) fn populate_hot_pages(&mut self) {
        let image = Arc::clone(&self.image);
        for &(start, len) in &image.facts().hot {
            let range = image.len().min(start as usize)..image.len().min(start as usize + len as usize);
            if self.space.populate(range).is_err() {
                break;
            }
        }
    }

    /// Maps an image into new address space.
    pub(crate) fn map_without_memory(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        let bytes = MEMORY_RESERVATION + MEMORY_GUARD_SIZE;
        let failed = |doing| move |source| WasmError::Memory { doing, bytes, source };
        let mut space = Reservation::new(bytes).map_err(failed("reserve"))?;
        space.map_private(image.file(), image.len()).map_err(failed("map"))?;
        let accessible = image.len();
        Ok(Self {
            space,
            image,
            accessible,
            #[cfg(target_os = "linux")]
            history: reset::History::default(),
        })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.space.base()
    }

    pub(crate) fn accessible(&self) -> usize {
        self.accessible
    }

    pub(crate) fn image(&self) -> &Arc<MemoryImage> {
        &self.image
    }

    /// Grows the memory to `size` bytes. The memory never shrinks.
    pub(crate) fn grow_to(&mut self, size: usize) -> std::io::Result<()> {
        if size > MEMORY_RESERVATION {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        self.space.make_accessible(self.accessible..size)?;
        self.accessible = size;
        Ok(())
    }

    /// Maps part of a file over accessible pages, with copy-on-write.
    #[cfg(target_os = "linux")]
    pub(crate) fn map_pages(&mut self, range: std::ops::Range<usize>, file: &File, offset: u64) -> std::io::Result<()> {
        assert!(range.end <= self.accessible, "pages outside of the memory");
        self.space.map_private_at(range, file, offset)
    }

    /// Returns accessible bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn bytes_at(&mut self, range: std::ops::Range<usize>) -> &mut [u8] {
        assert!(range.end <= self.accessible, "bytes outside of the memory");
        // SAFETY: the range is mapped and accessible, and `&mut self` excludes every other user.
        unsafe { self.space.bytes_mut(range) }
    }

    /// Records that a job is about to use the region.
    pub(crate) fn record_lease(&mut self) {
        #[cfg(target_os = "linux")]
        self.history.record_lease();
    }

    /// Returns the pages that jobs have written, nearby ones together; none on systems that cannot find them.
    pub(crate) fn hot_pages(&self) -> Vec<(u32, u32)> {
        #[cfg(target_os = "linux")]
        return self.history.hot_pages();
        #[cfg(not(target_os = "linux"))]
        Vec::new()
    }

    /// Fails, because written pages cannot be found on this system. A region is mapped again for every job instead.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn reset(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Returns true if every accessible byte equals the image. Reads the whole region.
    pub(crate) fn equals_image(&mut self) -> bool {
        let len = self.image.len();
        // SAFETY: the image's length is mapped and readable, and `&mut self` excludes every other user.
        self.accessible == len && unsafe { self.space.bytes_mut(0..len) } == self.image.bytes()
    }
}

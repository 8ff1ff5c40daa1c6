//! Regions: the address space of one guest's memory, mapped from a memory image and put back after a job.

mod creator;
mod pool;
mod stack;

pub(crate) use creator::{Lease, RegionCreator, with_lease};
pub(crate) use pool::{Fate, RegionPool};
pub(crate) use stack::StackPool;

use std::ops::Range;
use std::sync::Arc;

use crate::engine::{MEMORY_GUARD, MEMORY_RESERVATION};
use crate::error::WasmError;
use crate::image::MemoryImage;
use crate::sys::Reservation;

/// Bytes of private pages beyond which a region drops them all.
///
/// Copying a page back costs about a tenth of a microsecond, faulting it in again half of one and the same copy on
/// top; but kept pages stay resident, so there is a bound to what an idle region may hold.
const KEPT_LIMIT: usize = 32 << 20;

/// Bytes of private pages below which a region is not worth tidying.
const SMALL: usize = 4 << 20;

/// Jobs in a row that changed less than a quarter of a large region's private pages before it drops them all.
///
/// A page once written stays private for good and is looked at after every later job. Which of them a job wrote cannot
/// be told: most are left with the content they had, as a reference count goes up and down again.
const PATIENCE: u8 = 4;

/// Bytes of a page; what the system calls list and drop.
const PAGE: usize = 4096;

/// Address space for one memory: an image's bytes, room to grow, and a guard.
pub(crate) struct Region {
    space: Reservation,
    image: Arc<MemoryImage>,
    accessible: usize,
    /// Jobs in a row that left most of many private pages unchanged.
    quiet: u8,
}

impl Region {
    /// Maps an image into fresh address space.
    pub(crate) fn map(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        let bytes = MEMORY_RESERVATION + MEMORY_GUARD;
        let failed = |doing| move |source| WasmError::Memory { doing, bytes, source };
        let mut space = Reservation::new(bytes).map_err(failed("reserve"))?;
        space.map_private(image.file(), image.len()).map_err(failed("map"))?;
        let accessible = image.len();
        Ok(Self { space, image, accessible, quiet: 0 })
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

    /// Makes the memory `size` bytes long; it never shrinks.
    pub(crate) fn grow_to(&mut self, size: usize) -> std::io::Result<()> {
        if size > MEMORY_RESERVATION {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        self.space.open_up(self.accessible..size)?;
        self.accessible = size;
        Ok(())
    }

    /// Puts every byte back to what the image holds, and the size with it.
    ///
    /// On success the region is as a freshly mapped one. On an error it must be dropped.
    #[cfg(target_os = "linux")]
    pub(crate) fn reset(&mut self) -> std::io::Result<()> {
        let Some(pagemap) = crate::sys::Pagemap::get() else {
            return Err(std::io::ErrorKind::Unsupported.into());
        };
        let len = self.image.len();
        if self.accessible > len {
            self.space.close_off(len..self.accessible)?;
            self.accessible = len;
        }
        let mut private: Vec<Range<usize>> = Vec::with_capacity(128);
        let mut bytes = 0;
        pagemap.written(self.space.base(), len, |range| {
            bytes += range.len();
            private.push(range);
        })?;
        if bytes > KEPT_LIMIT {
            return self.space.discard(0..len);
        }
        let mut changed = 0;
        for page in private.iter().flat_map(|range| range.clone().step_by(PAGE)).map(|at| at..at + PAGE) {
            let source = &self.image.bytes()[page.clone()];
            // SAFETY: the page lies within the image's length, which is mapped and writable, and `&mut self` shows that
            // no instance uses the region any more.
            let kept = unsafe { self.space.bytes_mut(page) };
            if kept != source {
                kept.copy_from_slice(source);
                changed += PAGE;
            }
        }
        self.quiet = if bytes > SMALL && changed < bytes / 4 { self.quiet + 1 } else { 0 };
        if self.quiet >= PATIENCE {
            self.quiet = 0;
            self.space.discard(0..len)?;
        }
        Ok(())
    }

    /// Without a way to find written pages a region is mapped afresh for every job.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn reset(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Whether every accessible byte equals the image; reads the whole region.
    pub(crate) fn equals_image(&mut self) -> bool {
        let len = self.image.len();
        // SAFETY: the image's length is mapped and readable; `&mut self` excludes every other user.
        self.accessible == len && unsafe { self.space.bytes_mut(0..len) } == self.image.bytes()
    }
}

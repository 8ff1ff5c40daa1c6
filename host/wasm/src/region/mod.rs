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
const SMALL: usize = 1 << 20;

/// Jobs in a row that changed less than a quarter of a large region's private pages before it drops them all.
///
/// A page once written stays private for good and is looked at after every later job. Which of them a job wrote cannot
/// be told: most are left with the content they had, as a reference count goes up and down again.
const PATIENCE: u8 = 4;

/// Bytes that are compared, and copied where they differ.
const CHUNK: usize = 1024;

/// Bytes of a page; what the system calls list and drop.
const PAGE: usize = 4096;

/// Address space for one memory: an image's bytes, room to grow, and a guard.
pub(crate) struct Region {
    space: Reservation,
    image: Arc<MemoryImage>,
    accessible: usize,
    /// Jobs in a row that left most of many private pages unchanged.
    quiet: u8,
    /// The pages that were private when the region was last reset; nothing when that is not known.
    private: Option<Vec<Range<usize>>>,
    /// Page faults of this process when the region was lent.
    faults: Option<u64>,
}

impl Region {
    /// Maps an image into fresh address space.
    pub(crate) fn map(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        let bytes = MEMORY_RESERVATION + MEMORY_GUARD;
        let failed = |doing| move |source| WasmError::Memory { doing, bytes, source };
        let mut space = Reservation::new(bytes).map_err(failed("reserve"))?;
        space.map_private(image.file(), image.len()).map_err(failed("map"))?;
        let accessible = image.len();
        Ok(Self { space, image, accessible, quiet: 0, private: None, faults: None })
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

    /// Notes that a job is about to get the region.
    pub(crate) fn lend(&mut self) {
        #[cfg(target_os = "linux")]
        {
            self.faults = crate::sys::page_faults();
        }
    }

    /// Puts every byte back to what the image holds, and the size with it.
    ///
    /// On success the region is as a freshly mapped one. On an error it must be dropped.
    #[cfg(target_os = "linux")]
    pub(crate) fn reset(&mut self) -> std::io::Result<()> {
        let faults = crate::sys::page_faults();
        let len = self.image.len();
        if self.accessible > len {
            self.space.close_off(len..self.accessible)?;
            self.accessible = len;
        }
        // Without a page fault no page became private that was not before, and the kernel need not be asked.
        let known = self.private.take().filter(|_| faults.is_some() && faults == self.faults);
        let private = match known {
            Some(private) => private,
            None => self.find_private()?,
        };
        let bytes: usize = private.iter().map(ExactSizeIterator::len).sum();
        if bytes > KEPT_LIMIT {
            return self.drop_private();
        }
        let mut changed = 0;
        for range in &private {
            changed += self.put_back(range.clone());
        }
        self.quiet = if bytes > SMALL && changed < bytes / 4 { self.quiet + 1 } else { 0 };
        if self.quiet >= PATIENCE {
            return self.drop_private();
        }
        self.private = Some(private);
        Ok(())
    }

    /// The pages that are this region's own and no longer the image's.
    #[cfg(target_os = "linux")]
    fn find_private(&self) -> std::io::Result<Vec<Range<usize>>> {
        let Some(pagemap) = crate::sys::Pagemap::get() else {
            return Err(std::io::ErrorKind::Unsupported.into());
        };
        let mut private = Vec::with_capacity(256);
        pagemap.written(self.space.base(), self.image.len(), |range| private.push(range))?;
        Ok(private)
    }

    /// Copies the image over what differs from it in whole pages; tells how many bytes the pages have that did.
    fn put_back(&mut self, pages: Range<usize>) -> usize {
        let source = &self.image.bytes()[pages.clone()];
        // SAFETY: the range lies within the image's length, which is mapped and writable, and `&mut self` shows that no
        // instance uses the region any more.
        let kept = unsafe { self.space.bytes_mut(pages) };
        let mut changed = 0;
        for (kept, source) in kept.chunks_mut(PAGE).zip(source.chunks(PAGE)) {
            let mut differs = false;
            for (kept, source) in kept.chunks_mut(CHUNK).zip(source.chunks(CHUNK)) {
                if kept != source {
                    kept.copy_from_slice(source);
                    differs = true;
                }
            }
            changed += if differs { PAGE } else { 0 };
        }
        changed
    }

    /// Gives all private pages back to the system.
    #[cfg(target_os = "linux")]
    fn drop_private(&mut self) -> std::io::Result<()> {
        self.quiet = 0;
        self.space.discard(0..self.image.len())?;
        self.private = Some(Vec::new());
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

#[cfg(all(test, target_os = "linux"))]
mod tests;

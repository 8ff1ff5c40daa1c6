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

/// Written pages beyond which dropping them is cheaper than copying them back, in bytes.
///
/// Copying a page costs about a tenth of a microsecond, faulting it in again about half of one; but kept pages
/// stay resident and are copied after every later job, so a job that wrote much is not remembered.
const COPY_BACK_LIMIT: usize = 4 << 20;

/// Address space for one memory: an image's bytes, room to grow, and a guard.
pub(crate) struct Region {
    space: Reservation,
    image: Arc<MemoryImage>,
    accessible: usize,
}

impl Region {
    /// Maps an image into fresh address space.
    pub(crate) fn map(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        let bytes = MEMORY_RESERVATION + MEMORY_GUARD;
        let failed = |doing| move |source| WasmError::Memory { doing, bytes, source };
        let mut space = Reservation::new(bytes).map_err(failed("reserve"))?;
        space.map_private(image.file(), image.len()).map_err(failed("map"))?;
        let accessible = image.len();
        Ok(Self { space, image, accessible })
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
        let mut written: Vec<Range<usize>> = Vec::with_capacity(128);
        let mut bytes = 0;
        pagemap.written(self.space.base(), len, |range| {
            bytes += range.len();
            written.push(range);
        })?;
        if bytes > COPY_BACK_LIMIT {
            return self.space.discard(0..len);
        }
        for range in written {
            let source = &self.image.bytes()[range.clone()];
            // SAFETY: the range lies within the image's length, which is mapped and writable, and `&mut self`
            // shows that no instance uses the region any more.
            unsafe { self.space.bytes_mut(range) }.copy_from_slice(source);
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

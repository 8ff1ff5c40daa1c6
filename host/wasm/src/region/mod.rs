//! Regions: the address space of one guest's memory, mapped from a memory image and put back after a job.

mod creator;
mod pool;
#[cfg(target_os = "linux")]
mod reset;
mod stack;
mod verify;

pub(crate) use creator::{Lease, RegionCreator, with_lease};
pub(crate) use pool::{Fate, RegionPool};
pub(crate) use stack::StackPool;
pub use verify::ResetChecks;
pub(crate) use verify::ResetVerification;

use std::sync::Arc;

use crate::engine::{MEMORY_GUARD, MEMORY_RESERVATION};
use crate::error::WasmError;
use crate::image::MemoryImage;
use crate::sys::Reservation;

/// Address space for one memory: an image's bytes, room to grow, and a guard.
pub(crate) struct Region {
    space: Reservation,
    image: Arc<MemoryImage>,
    accessible: usize,
    /// What earlier jobs did to it.
    #[cfg(target_os = "linux")]
    history: reset::History,
}

impl Region {
    /// Maps an image into fresh address space.
    pub(crate) fn map(image: Arc<MemoryImage>) -> Result<Self, WasmError> {
        let bytes = MEMORY_RESERVATION + MEMORY_GUARD;
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
        self.history.lend();
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

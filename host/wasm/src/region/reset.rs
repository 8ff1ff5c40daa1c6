//! Resets a region to the contents of its image.

use std::io;
use std::ops::Range;

use crate::region::Region;
use crate::sys::{Pagemap, page_faults};

/// Maximum bytes of private pages that a region keeps. A region with more drops them all.
///
/// Copying a page back costs about a tenth of a microsecond. Faulting the page in again costs half a microsecond in
/// addition to the same copy. Kept pages stay resident, however, so this limit bounds the memory of an idle region.
const MAX_PRIVATE_BYTES: usize = 32 << 20;

/// Bytes of private pages up to which a region keeps pages that jobs leave unchanged.
const SMALL_REGION: usize = 1 << 20;

/// Number of consecutive jobs that changed less than a quarter of a large region's private pages before it drops them
/// all.
///
/// A page that was written once stays private and is compared after every later job. The pages that a job wrote cannot
/// be distinguished from the others: most are left with the content they had, for example after a reference count was
/// incremented and decremented.
const MAX_QUIET_JOBS: u8 = 4;

/// Bytes that are compared at once, and copied if they differ.
const CHUNK_SIZE: usize = 1024;

/// Bytes of a page, the unit of the system calls that list and drop pages.
const PAGE_SIZE: usize = 4096;

/// The effects of earlier jobs on a region.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Number of consecutive jobs that left most of many private pages unchanged.
    quiet_jobs: u8,
    /// The pages that were private when the region was last reset, or `None` if unknown.
    private: Option<Vec<Range<usize>>>,
    /// Page fault count of this process when the region was leased.
    faults: Option<u64>,
}

/// Maximum bytes between two ranges of written pages that are listed as one: copying a page costs less than a system call.
const MAX_GAP: usize = PAGE_SIZE;

/// Maximum bytes of all listed ranges.
const MAX_HOT_BYTES: usize = 8 << 20;

impl History {
    /// Returns the pages that were private when the region was last reset, nearby ones together, as addresses and lengths.
    pub(super) fn hot_pages(&self) -> Vec<(u32, u32)> {
        let mut hot: Vec<Range<usize>> = Vec::new();
        for range in self.private.iter().flatten() {
            match hot.last_mut() {
                Some(last) if range.start <= last.end + MAX_GAP => last.end = range.end,
                _ => hot.push(range.clone()),
            }
        }
        if hot.iter().map(ExactSizeIterator::len).sum::<usize>() > MAX_HOT_BYTES {
            return Vec::new();
        }
        hot.into_iter().map(|range| (range.start as u32, range.len() as u32)).collect()
    }

    pub(super) fn record_lease(&mut self) {
        self.faults = page_faults();
    }
}

impl Region {
    /// Resets every byte to the content of the image, and the size to that of the image.
    ///
    /// After success, the region is equivalent to a newly mapped one. After an error, it must be dropped.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        let faults = page_faults();
        let len = self.image.len();
        if self.accessible > len {
            self.space.make_inaccessible(len..self.accessible)?;
            self.accessible = len;
        }
        // Without a page fault, no other page became private, and the kernel need not be called.
        let known = self.history.private.take().filter(|_| faults.is_some() && faults == self.history.faults);
        let private = match known {
            Some(private) => private,
            None => self.find_private_pages()?,
        };
        let bytes: usize = private.iter().map(ExactSizeIterator::len).sum();
        if bytes > MAX_PRIVATE_BYTES {
            return self.discard_private_pages();
        }
        let mut changed = 0;
        for range in &private {
            changed += self.restore_pages(range.clone());
        }
        self.history.quiet_jobs =
            if bytes > SMALL_REGION && changed < bytes / 4 { self.history.quiet_jobs + 1 } else { 0 };
        if self.history.quiet_jobs >= MAX_QUIET_JOBS {
            return self.discard_private_pages();
        }
        self.history.private = Some(private);
        Ok(())
    }

    /// Returns the pages that are private to this region and no longer shared with the image.
    fn find_private_pages(&self) -> io::Result<Vec<Range<usize>>> {
        let Some(pagemap) = Pagemap::get() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let mut private = Vec::with_capacity(256);
        pagemap.scan_written(self.space.base(), self.image.len(), |range| private.push(range))?;
        Ok(private)
    }

    /// Copies the image over the differing parts of whole pages. Returns the number of bytes in the pages that
    /// differed.
    fn restore_pages(&mut self, pages: Range<usize>) -> usize {
        let source = &self.image.bytes()[pages.clone()];
        // SAFETY: the range lies within the image's length, which is mapped and writable, and `&mut self` shows that no
        // instance uses the region any more.
        let kept = unsafe { self.space.bytes_mut(pages) };
        let mut changed = 0;
        for (kept, source) in kept.chunks_mut(PAGE_SIZE).zip(source.chunks(PAGE_SIZE)) {
            let mut differs = false;
            for (kept, source) in kept.chunks_mut(CHUNK_SIZE).zip(source.chunks(CHUNK_SIZE)) {
                if kept != source {
                    kept.copy_from_slice(source);
                    differs = true;
                }
            }
            changed += if differs { PAGE_SIZE } else { 0 };
        }
        changed
    }

    /// Returns all private pages to the system.
    fn discard_private_pages(&mut self) -> io::Result<()> {
        self.history.quiet_jobs = 0;
        self.space.discard(0..self.image.len())?;
        self.history.private = Some(Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Puts a region back to what its image holds.

use std::io;
use std::ops::Range;

use crate::region::Region;
use crate::sys::{Pagemap, page_faults};

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

/// What earlier jobs did to a region.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Jobs in a row that left most of many private pages unchanged.
    quiet: u8,
    /// The pages that were private when the region was last reset; nothing when that is not known.
    private: Option<Vec<Range<usize>>>,
    /// Page faults of this process when the region was lent.
    faults: Option<u64>,
}

impl History {
    pub(super) fn lend(&mut self) {
        self.faults = page_faults();
    }
}

impl Region {
    /// Puts every byte back to what the image holds, and the size with it.
    ///
    /// On success the region is as a freshly mapped one. On an error it must be dropped.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        let faults = page_faults();
        let len = self.image.len();
        if self.accessible > len {
            self.space.close_off(len..self.accessible)?;
            self.accessible = len;
        }
        // Without a page fault no page became private that was not before, and the kernel need not be asked.
        let known = self.history.private.take().filter(|_| faults.is_some() && faults == self.history.faults);
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
        self.history.quiet = if bytes > SMALL && changed < bytes / 4 { self.history.quiet + 1 } else { 0 };
        if self.history.quiet >= PATIENCE {
            return self.drop_private();
        }
        self.history.private = Some(private);
        Ok(())
    }

    /// The pages that are this region's own and no longer the image's.
    fn find_private(&self) -> io::Result<Vec<Range<usize>>> {
        let Some(pagemap) = Pagemap::get() else {
            return Err(io::ErrorKind::Unsupported.into());
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
    fn drop_private(&mut self) -> io::Result<()> {
        self.history.quiet = 0;
        self.space.discard(0..self.image.len())?;
        self.history.private = Some(Vec::new());
        Ok(())
    }
}

#[cfg(test)]
mod tests;

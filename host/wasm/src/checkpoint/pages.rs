//! Pages of a guest's memory that differ from its image.

use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use crate::image::MemoryImage;
use crate::region::Region;
use crate::sys::Pagemap;

/// Bytes of a page, the unit of a checkpoint.
pub(crate) const PAGE_SIZE: usize = 4096;

/// Maximum number of ranges that are mapped from a file. The system limits the mappings of a process, and more ranges are read.
const MAX_MAPPED: usize = 8192;

/// Ranges of pages in ascending order, whose bytes are in a file in this order without gaps.
pub(crate) struct Pages<'a> {
    pub file: &'a File,
    pub ranges: &'a [Range<usize>],
}

/// Returns the pages of a guest's memory that differ from its image, and beyond the image from zeros. `mapped` are the pages that were
/// restored from a checkpoint, which the kernel does not count as written.
///
/// # Errors
/// The system's error if the written pages cannot be found.
pub(crate) fn differing_pages(
    memory: &[u8],
    image: &MemoryImage,
    mapped: &[Range<usize>],
) -> io::Result<Vec<Range<usize>>> {
    let mut candidates = written_pages(memory)?;
    candidates.extend_from_slice(mapped);
    candidates.sort_unstable_by_key(|range| range.start);
    let mut differing: Vec<Range<usize>> = Vec::new();
    let mut next = 0;
    for range in candidates {
        for at in (range.start.max(next)..range.end.min(memory.len())).step_by(PAGE_SIZE) {
            let page = at..at + PAGE_SIZE;
            next = page.end;
            let is_equal = match image.bytes().get(page.clone()) {
                Some(original) => memory[page.clone()] == *original,
                None => memory[page.clone()].iter().all(|byte| *byte == 0),
            };
            match differing.last_mut() {
                _ if is_equal => {}
                Some(last) if last.end == page.start => last.end = page.end,
                _ => differing.push(page),
            }
        }
    }
    Ok(differing)
}

/// Returns the pages that the guest may have written; all pages if the kernel cannot tell.
fn written_pages(memory: &[u8]) -> io::Result<Vec<Range<usize>>> {
    let Some(pagemap) = Pagemap::get() else {
        return Ok(std::iter::once(0..memory.len()).collect());
    };
    let mut written = Vec::with_capacity(1024);
    pagemap.scan_written(memory.as_ptr(), memory.len(), |range| written.push(range))?;
    Ok(written)
}

/// Writes the pages at these ranges to a file, one after the other.
///
/// # Errors
/// The system's error.
pub(crate) fn write_pages(mut file: &File, memory: &[u8], ranges: &[Range<usize>]) -> io::Result<()> {
    ranges.iter().try_for_each(|range| file.write_all(&memory[range.clone()]))
}

impl Region {
    /// Replaces pages by those of a checkpoint, with copy-on-write if there are not too many ranges of them. The memory has `size`
    /// bytes afterwards.
    ///
    /// # Errors
    /// The system's error. The region must be dropped then.
    pub(crate) fn restore_pages_of(&mut self, size: usize, pages: &Pages<'_>) -> io::Result<()> {
        if size > self.accessible() {
            self.grow_to(size)?;
        }
        let mut offset = 0;
        for range in pages.ranges {
            if pages.ranges.len() <= MAX_MAPPED {
                self.map_pages(range.clone(), pages.file, offset)?;
            } else {
                pages.file.read_exact_at(self.bytes_at(range.clone()), offset)?;
            }
            offset += range.len() as u64;
        }
        self.populate_hot_pages();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use anyhow::Result;

    use super::*;
    use crate::image::ImageFacts;

    fn image() -> Result<Arc<MemoryImage>> {
        let file = tempfile::NamedTempFile::new()?;
        let bytes: Vec<u8> = (0..65_536_u32 * 2).map(|at| (at / 4096) as u8 + 1).collect();
        file.as_file().write_all(&bytes)?;
        Ok(Arc::new(MemoryImage::open(file.path(), file.reopen()?, ImageFacts::default())?))
    }

    /// Changes pages, saves them, and restores them in another region, twice.
    #[test]
    fn changed_pages_are_restored() -> Result<()> {
        let image = image()?;
        let (len, size) = (image.len(), image.len() + 65_536);
        let mut region = Region::map(Arc::clone(&image))?;
        region.grow_to(size)?;
        // Two pages in succession, one that is written with its own content, and one beyond the image.
        for (at, value) in [(4096, 200), (8192, 201), (40_960, 11), (len + 4096, 202)] {
            region.bytes_at(at..at + 1)[0] = value;
        }
        let ranges = differing_pages(region.bytes_at(0..size), &image, &[])?;
        assert_eq!(ranges, [4096..12_288, len + 4096..len + 8192]);
        let file = tempfile::tempfile()?;
        write_pages(&file, region.bytes_at(0..size), &ranges)?;
        assert_eq!(file.metadata()?.len(), 3 * 4096);
        let mut other = Region::map(Arc::clone(&image))?;
        other.restore_pages_of(size, &Pages { file: &file, ranges: &ranges })?;
        assert!(other.bytes_at(0..size) == region.bytes_at(0..size));
        // A further checkpoint has the restored pages, and those that were changed since.
        other.bytes_at(0..1)[0] = 99;
        let again = differing_pages(other.bytes_at(0..size), &image, &ranges)?;
        assert_eq!(again, [0..12_288, len + 4096..len + 8192]);
        // The file is not changed by the guest that is restored from it.
        other.bytes_at(4096..4097)[0] = 1;
        let mut third = Region::map(Arc::clone(&image))?;
        third.restore_pages_of(size, &Pages { file: &file, ranges: &ranges })?;
        assert_eq!(third.bytes_at(4096..4097), [200]);
        Ok(())
    }

    #[test]
    fn pages_in_many_ranges_are_restored() -> Result<()> {
        let image = image()?;
        let size = (2 * MAX_MAPPED + 2) * 2 * PAGE_SIZE;
        let ranges: Vec<Range<usize>> =
            (image.len()..size - PAGE_SIZE).step_by(2 * PAGE_SIZE).map(|at| at..at + PAGE_SIZE).collect();
        assert!(ranges.len() > MAX_MAPPED);
        let file = tempfile::tempfile()?;
        ranges.iter().try_for_each(|range| (&file).write_all(&[(range.start >> 13) as u8; PAGE_SIZE]))?;
        let mut region = Region::map(image)?;
        region.restore_pages_of(size, &Pages { file: &file, ranges: &ranges })?;
        assert!(
            ranges
                .iter()
                .all(|range| region.bytes_at(range.clone()).iter().all(|byte| *byte == (range.start >> 13) as u8))
        );
        Ok(())
    }
}

//! Pages of a guest's memory that differ from its image.

use std::fs::File;
use std::io::{self, BufWriter, IoSliceMut, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use crate::image::MemoryImage;
use crate::region::Region;
use crate::sys::{Pagemap, map_equal_pages};

/// Bytes of a page, the unit of a checkpoint.
pub(crate) const PAGE_SIZE: usize = 4096;

/// Maximum number of files with the pages of one state.
pub(crate) const MAX_FILES: usize = 16;

/// Maximum number of ranges that are mapped from files. The system limits the mappings of a process, and more ranges are read.
const MAX_MAPPED: usize = 8192;

/// Maximum bytes of a range that is read. A mapping takes longer than reading a few pages, which a guest most likely writes to.
const MAX_READ: usize = 2 * PAGE_SIZE;

/// Maximum number of ranges that are read with one call of the system.
const MAX_AT_ONCE: usize = 512;

/// Maximum bytes of ranges that are written with one call of the system.
const WRITE_BUFFER: usize = 1 << 20;

/// File with pages in ascending order, without gaps.
pub(crate) struct PageFile {
    pub file: File,
    /// Addresses of the pages.
    pub ranges: Vec<Range<usize>>,
}

/// Pages of a saved memory that differ from its image.
///
/// They are in several files, so that a checkpoint writes only what has changed since the one before. A page in a later file
/// replaces that of an earlier one.
#[derive(Default)]
pub(crate) struct SavedPages {
    files: Vec<PageFile>,
    /// The current pages, in ascending order.
    pieces: Vec<Piece>,
}

/// Range of pages in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    pages: Range<usize>,
    /// Index of the file.
    file: usize,
    offset: u64,
}

impl Piece {
    /// Returns a part of the piece.
    fn part(&self, pages: Range<usize>) -> Self {
        let offset = self.offset + (pages.start - self.pages.start) as u64;
        Self { pages, file: self.file, offset }
    }
}

/// Pages that the next checkpoint writes.
pub(crate) struct NextFile {
    /// Number of files before that stay.
    pub kept: usize,
    pub ranges: Vec<Range<usize>>,
}

impl SavedPages {
    /// Returns the pages in files, the oldest first.
    pub(crate) fn new(files: Vec<PageFile>) -> Self {
        let mut pieces = Vec::new();
        for (index, file) in files.iter().enumerate() {
            pieces = replaced(pieces, index, &file.ranges);
        }
        Self { files, pieces }
    }

    /// Returns the pages of each file, the oldest first.
    pub(crate) fn files(&self) -> impl ExactSizeIterator<Item = &[Range<usize>]> {
        self.files.iter().map(|file| file.ranges.as_slice())
    }

    /// Returns a reader of the saved memory from its start to its end.
    pub(crate) fn reader(&self) -> PageReader<'_> {
        PageReader { saved: self, next: 0 }
    }

    /// Returns the pages that the next checkpoint of a guest has to write if it can share the first `shared` files with the one before.
    ///
    /// # Errors
    /// The system's error if the written pages cannot be found, or if a file cannot be read.
    pub(crate) fn next_file(&self, memory: &[u8], image: &MemoryImage, shared: usize) -> io::Result<NextFile> {
        let changed = self.changed_pages(memory, image)?;
        let kept = self.files_to_keep(&changed, shared);
        let mut ranges = changed;
        let again = self.pieces.iter().filter(|piece| piece.file >= kept);
        ranges.extend(again.map(|piece| piece.pages.clone()));
        ranges = union(ranges);
        if kept == 0 && !self.files.is_empty() {
            // Pages that have the content of the image again.
            ranges = pages_where(&ranges, |page| Ok(memory[page.clone()] != *image_page(image, page.start)))?;
        }
        Ok(NextFile { kept, ranges })
    }

    /// Returns the pages whose content differs from the saved one. The kernel does not count pages that are mapped from a file as written.
    fn changed_pages(&self, memory: &[u8], image: &MemoryImage) -> io::Result<Vec<Range<usize>>> {
        let mut saved = self.reader();
        let mut buffer = [0; PAGE_SIZE];
        pages_where(&written_pages(memory)?, |page| {
            let before = match saved.read(page.start, &mut buffer)? {
                true => &buffer,
                false => image_page(image, page.start),
            };
            Ok(memory[page.clone()] != *before)
        })
    }

    /// Returns the number of files that the next checkpoint keeps: as many as possible if all files together have at most a fifth more
    /// than the current pages. Later files are merged into the new one first, because they are the smallest.
    fn files_to_keep(&self, changed: &[Range<usize>], shared: usize) -> usize {
        let sizes: Vec<usize> = self.files.iter().map(|file| bytes_of(&file.ranges)).collect();
        let merged = |kept: usize| {
            let again = self.pieces.iter().filter(|piece| piece.file >= kept).map(|piece| piece.pages.clone());
            bytes_of(&union(changed.iter().cloned().chain(again).collect()))
        };
        let current = merged(0);
        let fits = |kept: usize| (sizes[..kept].iter().sum::<usize>() + merged(kept)) * 5 <= current * 6;
        (1..=shared.min(self.files.len()).min(MAX_FILES - 1)).rev().find(|kept| fits(*kept)).unwrap_or(0)
    }

    /// Adds the file of a checkpoint of this memory, and maps its large ranges, whose memory is then shared with the file. The next
    /// checkpoint compares the other pages, which count as written.
    pub(crate) fn add(&mut self, memory: &mut [u8], next: NextFile, file: File) {
        self.files.truncate(next.kept);
        self.files.push(PageFile { file, ranges: next.ranges });
        *self = Self::new(std::mem::take(&mut self.files));
        let Some(newest) = self.files.len().checked_sub(1) else { return };
        for piece in self.mapped().filter(|piece| piece.file == newest) {
            let file = &self.files[newest].file;
            if map_equal_pages(&mut memory[piece.pages.clone()], file, piece.offset).is_err() {
                break;
            }
        }
    }
}

impl SavedPages {
    /// Returns the pieces that are mapped.
    fn mapped(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().filter(|piece| piece.pages.len() > MAX_READ).take(MAX_MAPPED)
    }

    /// Reads the pieces that are not mapped into a memory, those that follow each other in a file with one call.
    fn read_small(&self, memory: &mut [u8]) -> io::Result<()> {
        let mapped: Vec<usize> = self.mapped().map(|piece| piece.pages.start).collect();
        let small = self.pieces.iter().filter(|piece| mapped.binary_search(&piece.pages.start).is_err());
        let mut batches: Vec<Batch<'_>> = self.files.iter().map(|_| Batch::default()).collect();
        let (mut rest, mut at) = (memory, 0);
        for piece in small {
            let (_, after) = rest.split_at_mut(piece.pages.start - at);
            let (pages, after) = after.split_at_mut(piece.pages.len());
            (rest, at) = (after, piece.pages.end);
            let batch = &mut batches[piece.file];
            if batch.end != piece.offset || batch.parts.len() == MAX_AT_ONCE {
                std::mem::take(batch).read(&self.files[piece.file].file)?;
                batch.end = piece.offset;
            }
            batch.end += pages.len() as u64;
            batch.parts.push(IoSliceMut::new(pages));
        }
        batches.into_iter().zip(&self.files).try_for_each(|(batch, file)| batch.read(&file.file))
    }
}

/// Parts of a memory that follow each other in a file.
#[derive(Default)]
struct Batch<'m> {
    parts: Vec<IoSliceMut<'m>>,
    /// Offset of the end in the file.
    end: u64,
}

impl Batch<'_> {
    fn read(mut self, file: &File) -> io::Result<()> {
        let size: usize = self.parts.iter().map(|part| part.len()).sum();
        let mut offset = self.end - size as u64;
        let mut left = self.parts.as_mut_slice();
        while !left.is_empty() {
            let count = rustix::io::preadv(file, left, offset)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            IoSliceMut::advance_slices(&mut left, count);
            offset += count as u64;
        }
        Ok(())
    }
}

/// Reader of the pages of a saved memory, in ascending order.
pub(crate) struct PageReader<'s> {
    saved: &'s SavedPages,
    /// Index of the first piece that was not passed.
    next: usize,
}

impl PageReader<'_> {
    /// Reads the page at this address; false if it is that of the image.
    ///
    /// The page is read and not mapped, because another process may change the length of the file.
    pub(crate) fn read(&mut self, at: usize, into: &mut [u8; PAGE_SIZE]) -> io::Result<bool> {
        let pieces = &self.saved.pieces;
        while pieces.get(self.next).is_some_and(|piece| piece.pages.end <= at) {
            self.next += 1;
        }
        let Some(piece) = pieces.get(self.next).filter(|piece| piece.pages.contains(&at)) else { return Ok(false) };
        let offset = piece.offset + (at - piece.pages.start) as u64;
        self.saved.files[piece.file].file.read_exact_at(into, offset).map(|()| true)
    }
}

/// Returns pieces in which the pages of a file replace the earlier ones.
fn replaced(pieces: Vec<Piece>, file: usize, ranges: &[Range<usize>]) -> Vec<Piece> {
    let mut result = Vec::with_capacity(pieces.len() + ranges.len());
    let mut later = ranges;
    for piece in pieces {
        let mut start = piece.pages.start;
        while later.first().is_some_and(|range| range.end <= start) {
            later = &later[1..];
        }
        for range in later.iter().take_while(|range| range.start < piece.pages.end) {
            if start < range.start {
                result.push(piece.part(start..range.start));
            }
            start = range.end;
        }
        if start < piece.pages.end {
            result.push(piece.part(start..piece.pages.end));
        }
    }
    let mut offset = 0;
    for range in ranges {
        result.push(Piece { pages: range.clone(), file, offset });
        offset += range.len() as u64;
    }
    result.sort_unstable_by_key(|piece| piece.pages.start);
    result
}

/// Returns a page of an image, or zeros beyond its end.
fn image_page(image: &MemoryImage, at: usize) -> &[u8; PAGE_SIZE] {
    image.bytes().get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(&[0; PAGE_SIZE])
}

/// Returns the pages in these ranges, which ascend, for which the condition holds.
fn pages_where(
    ranges: &[Range<usize>],
    mut holds: impl FnMut(&Range<usize>) -> io::Result<bool>,
) -> io::Result<Vec<Range<usize>>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in ranges.iter().flat_map(|range| range.clone().step_by(PAGE_SIZE)) {
        let page = at..at + PAGE_SIZE;
        if holds(&page)? {
            push(&mut found, page);
        }
    }
    Ok(found)
}

/// Returns ranges in ascending order that cover the same pages without overlaps.
fn union(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut all: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    ranges.into_iter().for_each(|range| push(&mut all, range));
    all
}

/// Adds a range that starts at or after the last one.
fn push(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

/// Returns the number of bytes of ranges.
pub(crate) fn bytes_of(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
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
pub(crate) fn write_pages(file: &File, memory: &[u8], ranges: &[Range<usize>]) -> io::Result<()> {
    // Most ranges have one page, and each call of the system takes as long as the copying of several.
    let mut writer = BufWriter::with_capacity(WRITE_BUFFER.min(bytes_of(ranges)), file);
    ranges.iter().try_for_each(|range| writer.write_all(&memory[range.clone()]))?;
    writer.flush()
}

impl Region {
    /// Replaces pages by those of a checkpoint: large ranges are mapped with copy-on-write if there are not too many of them, and the
    /// others are read. The memory has `size` bytes afterwards.
    ///
    /// # Errors
    /// The system's error. The region must be dropped then.
    pub(crate) fn restore_pages_of(&mut self, size: usize, saved: &SavedPages) -> io::Result<()> {
        if size > self.accessible() {
            self.grow_to(size)?;
        }
        for piece in saved.mapped() {
            self.map_pages(piece.pages.clone(), &saved.files[piece.file].file, piece.offset)?;
        }
        saved.read_small(self.bytes_at(0..size))?;
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

    fn set(region: &mut Region, pages: &[(usize, u8)]) {
        pages.iter().for_each(|(at, value)| region.bytes_at(*at..*at + 1)[0] = *value);
    }

    /// Saves the memory of a region. Returns the number of shared files and the written ranges.
    fn save(region: &mut Region, saved: &mut SavedPages, size: usize) -> Result<(usize, Vec<Range<usize>>)> {
        let image = Arc::clone(region.image());
        let next = saved.next_file(region.bytes_at(0..size), &image, usize::MAX)?;
        let file = tempfile::tempfile()?;
        write_pages(&file, region.bytes_at(0..size), &next.ranges)?;
        assert_eq!(file.metadata()?.len(), bytes_of(&next.ranges) as u64);
        let written = (next.kept, next.ranges.clone());
        let before = region.bytes_at(0..size).to_vec();
        saved.add(region.bytes_at(0..size), next, file);
        assert!(before == region.bytes_at(0..size), "the memory stays the same");
        Ok(written)
    }

    fn restored(image: &Arc<MemoryImage>, saved: &SavedPages, size: usize) -> Result<Region> {
        let mut region = Region::map(Arc::clone(image))?;
        region.restore_pages_of(size, saved)?;
        Ok(region)
    }

    /// Changes pages, saves them, and restores them in another region, twice.
    #[test]
    fn changed_pages_are_restored() -> Result<()> {
        let image = image()?;
        let (len, size) = (image.len(), image.len() + 65_536);
        let mut region = Region::map(Arc::clone(&image))?;
        region.grow_to(size)?;
        // Two pages in succession, one that is written with its own content, and one beyond the image.
        set(&mut region, &[(4096, 200), (8192, 201), (40_960, 11), (len + 4096, 202)]);
        let mut saved = SavedPages::default();
        assert_eq!(save(&mut region, &mut saved, size)?, (0, vec![4096..12_288, len + 4096..len + 8192]));
        let mut other = restored(&image, &saved, size)?;
        assert!(other.bytes_at(0..size) == region.bytes_at(0..size));
        // The files are not changed by the guests that are restored from them.
        set(&mut other, &[(4096, 1)]);
        assert_eq!(restored(&image, &saved, size)?.bytes_at(4096..4097), [200]);
        Ok(())
    }

    /// Saves a region with forty pages again and again, and compares each state with the memory.
    #[test]
    fn later_checkpoints_have_the_changes_alone() -> Result<()> {
        let image = image()?;
        let (len, size) = (image.len(), image.len() + 4 * 65_536);
        let mut region = Region::map(Arc::clone(&image))?;
        region.grow_to(size)?;
        let mut saved = SavedPages::default();
        let pages: Vec<(usize, u8)> = (0..40).map(|page| (page * 4096, 200)).collect();
        set(&mut region, &pages);
        assert_eq!(save(&mut region, &mut saved, size)?, (0, std::iter::once(0..40 * 4096).collect()));
        assert_eq!(save(&mut region, &mut saved, size)?, (1, vec![]));
        set(&mut region, &[(4096, 1), (5 * 4096, 1), (6 * 4096, 200)]);
        assert_eq!(save(&mut region, &mut saved, size)?, (2, vec![4096..8192, 5 * 4096..6 * 4096]));
        set(&mut region, &[(4096, 2), (5 * 4096, 200), (len, 7)]);
        assert_eq!(save(&mut region, &mut saved, size)?, (3, vec![4096..8192, 5 * 4096..6 * 4096, len..len + 4096]));
        assert!(restored(&image, &saved, size)?.bytes_at(0..size) == region.bytes_at(0..size));
        // The files have 40, 0, 2 and 3 pages, and with these changes 43 are current: the last two are merged into the new one.
        set(&mut region, &[(4096, 3), (2 * 4096, 3), (7 * 4096, 3), (8 * 4096, 3), (len + 8192, 3)]);
        let expected =
            vec![4096..3 * 4096, 5 * 4096..6 * 4096, 7 * 4096..9 * 4096, len..len + 4096, len + 8192..len + 12_288];
        assert_eq!(save(&mut region, &mut saved, size)?, (2, expected));
        assert!(restored(&image, &saved, size)?.bytes_at(0..size) == region.bytes_at(0..size));
        // Most pages have changed, and some have the content of the image again.
        let mut pages: Vec<(usize, u8)> = (0..30).map(|page| (page * 4096, 100)).collect();
        pages[3].1 = image.bytes()[3 * 4096];
        set(&mut region, &pages);
        let expected = vec![0..3 * 4096, 4 * 4096..40 * 4096];
        assert_eq!(save(&mut region, &mut saved, size)?, (0, expected));
        assert!(restored(&image, &saved, size)?.bytes_at(0..size) == region.bytes_at(0..size));
        Ok(())
    }

    #[test]
    fn a_restored_memory_is_saved_with_its_changes_alone() -> Result<()> {
        let image = image()?;
        let size = image.len();
        let mut region = Region::map(Arc::clone(&image))?;
        let mut saved = SavedPages::default();
        set(&mut region, &(0..20).map(|page| (page * 4096, 200)).collect::<Vec<_>>());
        save(&mut region, &mut saved, size)?;
        let mut other = restored(&image, &saved, size)?;
        set(&mut other, &[(4096, 3)]);
        assert_eq!(save(&mut other, &mut saved, size)?, (1, std::iter::once(4096..8192).collect()));
        assert!(restored(&image, &saved, size)?.bytes_at(0..size) == other.bytes_at(0..size));
        Ok(())
    }

    /// Saves random changes, with a limit on the shared files that varies, and reads each state page by page.
    #[test]
    fn random_changes_are_saved() -> Result<()> {
        use rand::{Rng as _, RngExt as _, SeedableRng as _};

        let image = image()?;
        let size = image.len() + 65_536;
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let mut region = Region::map(Arc::clone(&image))?;
        region.grow_to(size)?;
        let mut saved = SavedPages::default();
        for round in 0..200 {
            for _ in 0..random.random_range(0..12) {
                let at = random.random_range(0..size / 4096) * 4096;
                let value = match random.random_range(0..3) {
                    0 => image.bytes().get(at).copied().unwrap_or_default(),
                    _ => random.next_u32() as u8,
                };
                set(&mut region, &[(at, value)]);
            }
            let shared = random.random_range(0..20);
            let next = saved.next_file(region.bytes_at(0..size), &image, shared)?;
            assert!(next.kept <= shared && next.kept < MAX_FILES);
            let file = tempfile::tempfile()?;
            write_pages(&file, region.bytes_at(0..size), &next.ranges)?;
            saved.add(region.bytes_at(0..size), next, file);
            let current: usize = saved.pieces.iter().map(|piece| piece.pages.len()).sum();
            let total: usize = saved.files().map(bytes_of).sum();
            assert!(total * 5 <= current * 6, "round {round}: {total} bytes for {current}");
            let mut reader = saved.reader();
            let mut page = [0; PAGE_SIZE];
            for at in (0..size).step_by(PAGE_SIZE) {
                let found = match reader.read(at, &mut page)? {
                    true => &page,
                    false => image_page(&image, at),
                };
                assert!(region.bytes_at(at..at + PAGE_SIZE) == found, "round {round}, {at}");
            }
            if round % 20 == 0 {
                region = restored(&image, &saved, size)?;
            }
        }
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
        let saved = SavedPages::new(vec![PageFile { file, ranges: ranges.clone() }]);
        region.restore_pages_of(size, &saved)?;
        assert!(
            ranges
                .iter()
                .all(|range| region.bytes_at(range.clone()).iter().all(|byte| *byte == (range.start >> 13) as u8))
        );
        Ok(())
    }
}

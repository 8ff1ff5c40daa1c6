//! Address space on the heap, for Miri, which maps no files. Every page counts as written.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::ptr::NonNull;

/// Alignment of the address space, that of a page.
const ALIGNMENT: usize = 4096;

/// A range of address space that this process owns until the value is dropped. All of it is accessible; the accessible
/// part is recorded, and access outside of it panics.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    len: usize,
    accessible: Range<usize>,
    /// File whose bytes a discarded range has again.
    file: Option<(File, usize)>,
}

// SAFETY: as for the reservations of the system.
unsafe impl Send for Reservation {}
// SAFETY: as above.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Allocates `len` bytes.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let layout = Self::layout(len)?;
        // SAFETY: the layout has a length.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) });
        let base = base.unwrap_or_else(|| handle_alloc_error(layout));
        Ok(Self { base, len, accessible: 0..0, file: None })
    }

    fn layout(len: usize) -> io::Result<Layout> {
        Layout::from_size_align(len.max(1), ALIGNMENT).map_err(io::Error::other)
    }

    /// Returns the first address.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Copies the first `len` bytes of a file to the start.
    pub(crate) fn map_private(&mut self, file: &File, len: usize) -> io::Result<()> {
        assert!(len <= self.len);
        self.file = Some((file.try_clone()?, len));
        self.accessible = 0..len;
        self.discard(0..len)
    }

    /// Makes a range accessible, which continues the accessible range.
    /// Does nothing: memory exists from the start.
    pub(crate) fn populate(&mut self, _range: Range<usize>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn make_accessible(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.end <= self.len && (self.accessible.is_empty() || self.accessible.end == range.start));
        let start = if self.accessible.is_empty() { range.start } else { self.accessible.start };
        self.accessible = start..range.end;
        Ok(())
    }

    /// Makes the end of the accessible range inaccessible. Its bytes are zero when it is accessible again.
    pub(crate) fn make_inaccessible(&mut self, range: Range<usize>) -> io::Result<()> {
        assert!(range.end == self.accessible.end);
        // SAFETY: the range is accessible, and `&mut self` excludes every other user.
        unsafe { self.bytes_mut(range.clone()) }.fill(0);
        self.accessible.end = range.start;
        Ok(())
    }

    /// Restores the bytes of the file, or zeros after its end.
    pub(crate) fn discard(&mut self, range: Range<usize>) -> io::Result<()> {
        let file = self.file.as_ref().map(|(file, len)| (file.try_clone(), *len));
        // SAFETY: as above.
        let bytes = unsafe { self.bytes_mut(range.clone()) };
        bytes.fill(0);
        if let Some((file, len)) = file {
            let end = len.saturating_sub(range.start).min(bytes.len());
            file?.read_exact_at(&mut bytes[..end], range.start as u64)?;
        }
        Ok(())
    }

    /// Returns the bytes of an accessible range.
    ///
    /// # Safety
    /// No other code may access the range while the slice lives.
    pub(crate) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(self.accessible.start <= range.start && range.end <= self.accessible.end, "{range:?} is inaccessible");
        // SAFETY: the range is inside of the allocation, and the caller guarantees exclusivity.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(range.start), range.len()) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.len) {
            // SAFETY: allocated with this layout by `new`.
            unsafe { dealloc(self.base.as_ptr(), layout) };
        }
    }
}

/// List of the pages that a process has written to: all of them.
pub(crate) struct Pagemap;

impl Pagemap {
    pub(crate) fn get() -> Option<&'static Self> {
        Some(&Self)
    }

    /// Reports the whole range.
    pub(crate) fn scan_written(
        &self,
        _base: *mut u8,
        len: usize,
        mut found: impl FnMut(Range<usize>),
    ) -> io::Result<()> {
        found(0..len);
        Ok(())
    }
}

/// Leaves the memory as it is, with the bytes that the file has.
pub(crate) fn map_equal_pages(_memory: &mut [u8], _file: &File, _offset: u64) -> io::Result<()> {
    Ok(())
}

/// Returns no count: page faults are not counted.
pub(crate) fn page_faults() -> Option<u64> {
    None
}

//! Finds the written pages of a private mapping (Linux 6.7 and later), and detects that no page can have been written.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// Category of pages that belong to the mapped file and were never copied.
const PAGE_IS_FILE: u64 = 1 << 2;
/// Category of pages that are in memory.
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// Category of pages that were moved to swap.
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// `_IOWR('f', 16, struct pm_scan_arg)`, from the kernel's `include/uapi/linux/fs.h`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Maximum number of ranges that one call to the kernel returns.
const SCAN_BATCH: usize = 512;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The kernel's view of this process's pages.
pub(crate) struct Pagemap {
    file: File,
}

impl Pagemap {
    /// Returns the process's pagemap, or `None` if the kernel cannot scan it.
    ///
    /// The pagemap is opened once, at the first call: a confined process could not open it later.
    pub(crate) fn get() -> Option<&'static Self> {
        static PAGEMAP: OnceLock<Option<Pagemap>> = OnceLock::new();
        PAGEMAP
            .get_or_init(|| {
                let map = Self { file: File::open("/proc/self/pagemap").ok()? };
                // A scan of an empty range shows if the call exists, without visiting any page.
                let mut found = [PageRegion::default(); 1];
                map.scan(0, 0, &mut found).ok()?;
                Some(map)
            })
            .as_ref()
    }

    /// Calls `visit` with each range of written pages, as addresses relative to `base`.
    ///
    /// A page counts as written if it is in memory or in swap and no longer part of the file. If the result is `Ok`,
    /// the whole of `base..base + len` was scanned.
    pub(crate) fn scan_written(
        &self,
        base: *const u8,
        len: usize,
        mut visit: impl FnMut(Range<usize>),
    ) -> io::Result<()> {
        let first = base as u64;
        let end = first + len as u64;
        let mut start = first;
        let mut found = [PageRegion::default(); SCAN_BATCH];
        while start < end {
            let (count, walked) = self.scan(start, end, &mut found)?;
            for region in &found[..count] {
                visit((region.start - first) as usize..(region.end - first) as usize);
            }
            if walked <= start {
                return Err(io::Error::other("the kernel's page scan made no progress"));
            }
            start = walked;
        }
        Ok(())
    }

    fn scan(&self, start: u64, end: u64, found: &mut [PageRegion]) -> io::Result<(usize, u64)> {
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start,
            end,
            vec: found.as_mut_ptr() as u64,
            vec_len: found.len() as u64,
            category_inverted: PAGE_IS_FILE,
            category_mask: PAGE_IS_FILE,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT,
            ..ScanArg::default()
        };
        // SAFETY: `arg` has the layout that the kernel documents and contains its own size; `vec` points to `vec_len`
        // writable entries that outlive the call; a scan without flags changes no page.
        let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((count as usize, arg.walk_end))
    }
}

/// Returns the number of page faults of all threads of this process so far, or `None` if it is unavailable.
///
/// A page of a private mapping becomes private only in a page fault. The kernel counts the fault for the thread that
/// caused it, both if the program accessed the page and if a system call did so on its behalf. Two equal counts
/// therefore mean that no page became private in between.
pub(crate) fn page_faults() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the whole structure, which is a local variable and outlives the call.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the structure was zeroed, which is a valid value of its integers, and then filled.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_minflt).ok()?.checked_add(u64::try_from(usage.ru_majflt).ok()?)
}

//! Finds the pages of a private mapping that were written (Linux 6.7 and later), and tells when none can have been.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// Pages that belong to the mapped file and were never copied.
const PAGE_IS_FILE: u64 = 1 << 2;
/// Pages that are in memory.
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// Pages that were moved to swap.
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// `_IOWR('f', 16, struct pm_scan_arg)`, from the kernel's `include/uapi/linux/fs.h`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;

/// Ranges read by one call to the kernel.
const BATCH: usize = 512;

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
    /// The process's pagemap, or nothing where the kernel cannot scan it.
    ///
    /// It is opened once, at the first call: a confined process could not open it later.
    pub(crate) fn get() -> Option<&'static Self> {
        static PAGEMAP: OnceLock<Option<Pagemap>> = OnceLock::new();
        PAGEMAP
            .get_or_init(|| {
                let map = Self { file: File::open("/proc/self/pagemap").ok()? };
                // An empty range tells whether the call exists without walking anything.
                let mut found = [PageRegion::default(); 1];
                map.scan(0, 0, &mut found).ok()?;
                Some(map)
            })
            .as_ref()
    }

    /// Calls `visit` with each range of addresses, relative to `base`, whose pages were written.
    ///
    /// A page counts as written when it is in memory or in swap and no longer the file's own. The whole of
    /// `base..base + len` has been walked when this returns `Ok`.
    pub(crate) fn written(&self, base: *const u8, len: usize, mut visit: impl FnMut(Range<usize>)) -> io::Result<()> {
        let first = base as u64;
        let end = first + len as u64;
        let mut start = first;
        let mut found = [PageRegion::default(); BATCH];
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
        // SAFETY: `arg` has the layout the kernel documents and names its own size; `vec` points to `vec_len`
        // writable entries that outlive the call; a scan without flags changes no page.
        let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut arg) };
        if count < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((count as usize, arg.walk_end))
    }
}

/// Page faults of all this process's threads so far; nothing where they cannot be told.
///
/// A page of a private mapping becomes this process's own only in a page fault, which the kernel counts on the thread
/// that had it, whether the page was touched by the program or by a system call on its behalf. So two equal counts say
/// that no page became private in between.
pub(crate) fn page_faults() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills the whole structure that it is given, which lives here.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it was zeroed, which is a valid value of its integers, and then filled.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_minflt).ok()?.checked_add(u64::try_from(usage.ru_majflt).ok()?)
}

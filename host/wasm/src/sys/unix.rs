//! Address space, private file mappings, clocks and file identities on Unix.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

/// A range of address space that this process owns until the value is dropped. It is inaccessible at first.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a reservation is only an address and a length that it owns. Any thread may make the system's mapping calls,
// and all methods that change a mapping take `&mut self`.
unsafe impl Send for Reservation {}
// SAFETY: shared access only reads the address and the length.
unsafe impl Sync for Reservation {}

/// Maps part of a file, which has the same bytes, in place of whole pages of memory, with copy-on-write. The memory is then shared with
/// the file.
///
/// # Errors
/// The system's error. The memory is as before.
#[cfg(target_os = "linux")]
pub(crate) fn map_equal_pages(memory: &mut [u8], file: &File, offset: u64) -> io::Result<()> {
    let prot = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
    // SAFETY: the slice is an exclusive borrow of memory that consists of private mappings of this process, and the new mapping covers the
    // same addresses with the same bytes and access. An address or an offset that does not start a page is refused by the system.
    // The system checks the number of mappings before it removes one, so a failure leaves the old mapping.
    unsafe { mmap(memory.as_mut_ptr().cast(), memory.len(), prot, flags, file, offset) }?;
    Ok(())
}

impl Reservation {
    /// Reserves `len` bytes of address space without memory.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a null hint lets the system choose free address space, so no mapping of this process is touched.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), flags) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("the system mapped the null page"))?;
        Ok(Self { base, len })
    }

    /// Returns the first address.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Maps the first `len` bytes of a file at the start, readable and writable, with copy-on-write.
    pub(crate) fn map_private(&mut self, file: &File, len: usize) -> io::Result<()> {
        self.check_range(&(0..len));
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the fixed range was checked to lie inside this reservation, which has no other user, and `&mut self`
        // shows that no reader of the old mapping is left.
        unsafe { mmap(self.base.as_ptr().cast(), len, prot, flags, file, 0) }?;
        Ok(())
    }

    /// Maps part of a file at a range, readable and writable, with copy-on-write.
    #[cfg(target_os = "linux")]
    pub(crate) fn map_private_at(&mut self, range: Range<usize>, file: &File, offset: u64) -> io::Result<()> {
        let at = self.check_range(&range);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as for `map_private`.
        unsafe { mmap(at.cast(), range.len(), prot, flags, file, offset) }?;
        Ok(())
    }

    /// Makes a range readable and writable. Bytes that were never accessed before read as zero.
    pub(crate) fn make_accessible(&mut self, range: Range<usize>) -> io::Result<()> {
        let at = self.check_range(&range);
        // SAFETY: the range lies inside this reservation; giving access invalidates no reference.
        unsafe { mprotect(at.cast(), range.len(), MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Removes memory and access from a range.
    #[cfg(target_os = "linux")]
    pub(crate) fn make_inaccessible(&mut self, range: Range<usize>) -> io::Result<()> {
        let at = self.check_range(&range);
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: as for `map_private`; a fixed mapping replaces exactly the checked range.
        unsafe { mmap_anonymous(at.cast(), range.len(), ProtFlags::empty(), flags) }?;
        Ok(())
    }

    /// Drops the private copies in a range, so that it reads as the file, or as zeros, again.
    #[cfg(target_os = "linux")]
    pub(crate) fn discard(&mut self, range: Range<usize>) -> io::Result<()> {
        let at = self.check_range(&range);
        // SAFETY: the range lies inside this reservation, and `&mut self` shows that its bytes are not borrowed.
        unsafe { madvise(at.cast(), range.len(), Advice::LinuxDontNeed) }?;
        Ok(())
    }

    /// Gives every page of an accessible range memory of its own, as a write to each page would.
    #[cfg(target_os = "linux")]
    pub(crate) fn populate(&mut self, range: Range<usize>) -> io::Result<()> {
        let at = self.check_range(&range);
        // SAFETY: the range lies inside this reservation, and its contents stay the same.
        unsafe { madvise(at.cast(), range.len(), Advice::LinuxPopulateWrite) }?;
        Ok(())
    }

    /// Returns the bytes of an accessible range.
    ///
    /// # Safety
    /// The range must have been mapped with [`map_private`](Self::map_private) or [`make_accessible`](Self::make_accessible), and no
    /// other code may access it while the slice lives.
    pub(crate) unsafe fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        let at = self.check_range(&range);
        // SAFETY: the caller guarantees access and exclusivity; the range was checked to be in bounds.
        unsafe { std::slice::from_raw_parts_mut(at, range.len()) }
    }

    fn check_range(&self, range: &Range<usize>) -> *mut u8 {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} is outside of {} bytes", self.len);
        self.base.as_ptr().wrapping_add(range.start)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: this value owns the whole range, and no reference to the range is left.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "unmapping an owned range cannot fail");
    }
}

/// Returns the bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Makes memory readable and executable, and not writable.
///
/// # Safety
/// The memory must begin with a page, the caller must own all pages of it, and their bytes must be code that may run.
pub(crate) unsafe fn make_executable(at: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller owns the pages. No reference allows writing to them, because the bytes are complete.
    unsafe { mprotect(at.cast_mut().cast(), len, MprotectFlags::READ | MprotectFlags::EXEC) }?;
    Ok(())
}

/// Returns the processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    cpu_time(rustix::time::ClockId::ThreadCPUTime)
}

/// Returns the processor time that all threads of this process have used.
pub(crate) fn process_cpu_time() -> Duration {
    cpu_time(rustix::time::ClockId::ProcessCPUTime)
}

fn cpu_time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns a file's identity: device, inode, and the times of the last change of its content and of its status.
///
/// The status change time is updated whenever content, owner, mode or name change, and no unprivileged program can set
/// it.
pub(crate) fn identity(meta: &Metadata) -> (u64, u64, (i64, i64), (i64, i64)) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino(), (meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()))
}

/// Makes a file or directory readable for all users, and writable for its owner alone.
pub(crate) fn make_public(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode = if std::fs::metadata(path)?.is_dir() { 0o755 } else { 0o644 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Makes a file readable for this user alone, and writable for no user.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o400))
}

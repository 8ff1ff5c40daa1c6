//! Address space, clocks and file identities on Windows. Images are read into memory, because Windows has no private
//! file mapping at a fixed address inside a reservation.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::windows::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_RELEASE, MEM_RESERVE, PAGE_EXECUTE_READ, PAGE_NOACCESS, PAGE_READWRITE, VirtualAlloc, VirtualFree,
    VirtualProtect,
};
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};

/// A range of address space that this process owns until the value is dropped. It is inaccessible at first.
#[derive(Debug)]
pub(crate) struct Reservation {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a reservation is only an address and a length that it owns. Any thread may make the system's calls, and all
// methods that change a mapping take `&mut self`.
unsafe impl Send for Reservation {}
// SAFETY: shared access only reads the address and the length.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `len` bytes of address space without memory.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // SAFETY: without an address, the system chooses free address space.
        let base = unsafe { VirtualAlloc(std::ptr::null(), len, MEM_RESERVE, PAGE_NOACCESS) };
        let base = NonNull::new(base.cast()).ok_or_else(io::Error::last_os_error)?;
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

    /// Reads the first `len` bytes of a file into the start of the range, readable and writable.
    pub(crate) fn map_private(&mut self, file: &File, len: usize) -> io::Result<()> {
        self.make_accessible(0..len)?;
        // SAFETY: the range was just committed, and `&mut self` shows that its bytes are not borrowed.
        let bytes = unsafe { self.bytes_mut(0..len) };
        let mut done = 0;
        while done < len {
            match file.seek_read(&mut bytes[done..], done as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Makes a range readable and writable. Bytes that were never accessed before read as zero.
    pub(crate) fn make_accessible(&mut self, range: Range<usize>) -> io::Result<()> {
        let at = self.check_range(&range);
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: the range lies inside this reservation; committing invalidates no reference.
        let got = unsafe { VirtualAlloc(at.cast(), range.len(), MEM_COMMIT, PAGE_READWRITE) };
        if got.is_null() { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the bytes of an accessible range.
    ///
    /// # Safety
    /// The range must have been opened, and no other code may access it while the slice lives.
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
        // SAFETY: this value owns the whole reservation, and no reference to the reservation is left.
        unsafe { VirtualFree(self.base.as_ptr().cast(), 0, MEM_RELEASE) };
    }
}

/// Returns the bytes of a page of memory, which are the same on all processors that Windows supports.
pub(crate) fn page_size() -> usize {
    4096
}

/// Makes memory readable and executable, and not writable.
///
/// # Safety
/// The memory must begin with a page, the caller must own all pages of it, and their bytes must be code that may run.
pub(crate) unsafe fn make_executable(at: *const u8, len: usize) -> io::Result<()> {
    let mut before = 0;
    // SAFETY: the caller owns the pages. No reference allows writing to them, because the bytes are complete.
    let changed = unsafe { VirtualProtect(at.cast(), len, PAGE_EXECUTE_READ, &mut before) };
    if changed == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the processor time that the calling thread has used.
pub(crate) fn thread_cpu_time() -> Duration {
    let mut times = [FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 }; 4];
    let [created, exited, kernel, user] = &mut times;
    // SAFETY: the four variables are valid for writes and outlive the call.
    unsafe { GetThreadTimes(GetCurrentThread(), created, exited, kernel, user) };
    let ticks = |time: &FILETIME| u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    // One tick is 100 ns.
    Duration::from_nanos((ticks(kernel) + ticks(user)) * 100)
}

/// Returns a file's identity, as far as its metadata contains it: the times of creation and of the last write.
pub(crate) fn identity(meta: &Metadata) -> (u64, u64, (i64, i64), (i64, i64)) {
    (0, meta.creation_time(), (meta.last_write_time() as i64, 0), (0, 0))
}

/// Changes nothing, as for [`make_private`].
pub(crate) fn make_public(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Changes nothing: the file inherits its permissions from the user's profile.
pub(crate) fn make_private(_path: &Path) -> io::Result<()> {
    Ok(())
}

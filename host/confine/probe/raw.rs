//! System calls as an attack makes them, for which no safe interface exists.

use std::io;

use libc::c_long;

/// Makes a system call with up to four numeric arguments.
///
/// Only for calls that neither read nor write memory of this process with the given arguments: the tests pass null
/// pointers, descriptors and flags.
pub fn call(number: c_long, arguments: [c_long; 4]) -> io::Result<c_long> {
    let [a, b, c, d] = arguments;
    // SAFETY: the callers pass no pointers except null, so the kernel accesses no memory of this process. After
    // fork-like calls, the process only prints and exits.
    let answer = unsafe { libc::syscall(number, a, b, c, d, 0, 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Creates a file with a mode that is passed in memory.
pub fn create_with_openat2(path: &str, mode: u64) -> io::Result<()> {
    let path = std::ffi::CString::new(path)?;
    // `struct open_how`: flags, mode and resolve flags.
    let how = [(libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY) as u64, mode, 0];
    // SAFETY: the path is null-terminated and the size of the structure is the one passed; both live during the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), size_of_val(&how)) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Maps a page of anonymous memory with `protection`, changes the protection to `then`, and unmaps the page.
pub fn map(protection: i32, then: i32) -> io::Result<()> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping overlaps no other mapping, and it is unmapped before anything refers to it.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let changed = libc::mprotect(page, 4096, then);
        let error = io::Error::last_os_error();
        libc::munmap(page, 4096);
        if changed < 0 { Err(error) } else { Ok(()) }
    }
}

/// Scans an empty range of pages through an open `/proc/self/pagemap`.
pub fn scan_pages(pagemap: i32) -> io::Result<()> {
    // `struct pm_scan_arg`: size, flags, start, end, and further fields that may be zero.
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    let mut request = [0_u64; 12];
    request[0] = 96;
    // SAFETY: the kernel reads and writes only the 96 bytes of the request, because its range and its vector are empty.
    let answer = unsafe { libc::ioctl(pagemap, PAGEMAP_SCAN as _, request.as_mut_ptr()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

//! System calls of the analyzer without a safe wrapper, and its allocator.
//!
//! The process is single-threaded before and after each fork, so this module has no data races.
#![expect(unsafe_code, reason = "fork, wait4, timers and an allocator have no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Exit status of a worker that exceeded the memory limit.
pub const EXIT_MEMORY: i32 = 3;

/// The program's allocator: the system's, with a bound on the allocated bytes.
///
/// Beyond the bound the process exits with [`EXIT_MEMORY`], which distinguishes a text that takes too much memory from
/// a parser that fails. The kernel's limit on address space applies in addition.
pub struct BoundedAllocator {
    allocated: AtomicUsize,
    limit: AtomicUsize,
}

impl BoundedAllocator {
    /// Creates an allocator without a bound.
    pub const fn new() -> Self {
        Self { allocated: AtomicUsize::new(0), limit: AtomicUsize::new(usize::MAX) }
    }

    /// Bounds allocations from now on to this many bytes, in addition to those already allocated.
    pub fn allow(&self, bytes: usize) {
        self.limit.store(self.allocated.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
    }

    fn charge(&self, bytes: usize) {
        let before = self.allocated.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.limit.load(Ordering::Relaxed) {
            exit(EXIT_MEMORY);
        }
    }

    fn release(&self, bytes: usize) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn or_exit(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        exit(EXIT_MEMORY);
    }
    pointer
}

// SAFETY: every call is forwarded to the system's allocator with its original arguments, whose contract the caller
// fulfils; the counters touch no allocated memory.
unsafe impl GlobalAlloc for BoundedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.charge(layout.size());
        // SAFETY: the caller's layout.
        or_exit(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.charge(layout.size());
        // SAFETY: the caller's layout.
        or_exit(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.release(layout.size());
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.charge(size);
        self.release(layout.size());
        // SAFETY: the caller's pointer, layout and size.
        or_exit(unsafe { System.realloc(pointer, layout, size) })
    }
}

/// Ends the process immediately without running exit handlers.
pub fn exit(status: i32) -> ! {
    // SAFETY: the call touches no memory, and no code of the process runs after it.
    unsafe { libc::_exit(status) }
}

/// The two sides of a fork.
#[cfg(target_os = "linux")]
pub enum ForkResult {
    /// The child process.
    Child,
    /// The parent process, with the pid of its child.
    Parent(libc::pid_t),
}

/// Forks the process.
#[cfg(target_os = "linux")]
pub fn fork() -> io::Result<ForkResult> {
    // SAFETY: the process has one thread, so the child cannot wait for a thread that does not exist in it.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkResult::Child),
        child => Ok(ForkResult::Parent(child)),
    }
}

/// The result of a child process and its resource usage.
#[cfg(target_os = "linux")]
pub struct ChildExit {
    /// The exit status, if the process exited.
    pub status: Option<i32>,
    /// The signal that ended the process, if any.
    pub signal: Option<i32>,
    /// The processor time in microseconds.
    pub cpu_us: u64,
    /// The peak resident memory in KiB.
    pub peak_kib: u64,
}

/// Waits for a child to end.
#[cfg(target_os = "linux")]
pub fn wait(child: libc::pid_t) -> io::Result<ChildExit> {
    let mut status = 0;
    loop {
        // SAFETY: all fields of the structure are numbers, for which zero is valid.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals that live during the call.
        if unsafe { libc::wait4(child, &raw mut status, 0, &raw mut usage) } != child {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        let micros = |time: libc::timeval| {
            u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_usec).unwrap_or(0)
        };
        return Ok(ChildExit {
            status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
            peak_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        });
    }
}

/// Makes `SIGPROF` end the process once it has used this much processor time.
pub fn set_cpu_timer(milliseconds: u64) -> io::Result<()> {
    let seconds = libc::time_t::try_from(milliseconds / 1000).unwrap_or(libc::time_t::MAX);
    // The value is below a million, which fits every definition of the type.
    let micros = (milliseconds % 1000 * 1000) as libc::suseconds_t;
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer =
        libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: seconds, tv_usec: micros.max(1) } };
    // SAFETY: the pointer is to a local that lives during the call; the kernel writes no old value back.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Restores the default handling of memory faults, so that a stack overflow ends the process with `SIGSEGV`.
pub fn reset_fault_handlers() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default disposition is not a function of this program.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes all descriptors except the standard ones.
#[cfg(target_os = "linux")]
pub fn close_inherited() {
    // SAFETY: the function is called before any descriptor is opened, so none of the closed ones has an owner.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Closes standard input and output.
#[cfg(target_os = "linux")]
pub fn close_stdio() {
    for descriptor in [0, 1] {
        // SAFETY: the standard library's handles for these two descriptors own nothing and are not used again.
        unsafe { libc::close(descriptor) };
    }
}

/// Maps a page of executable memory, for the test of the filter.
#[cfg(all(test, target_os = "linux"))]
pub fn map_executable() {
    let (read_and_run, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, read_and_run, private, -1, 0) };
}

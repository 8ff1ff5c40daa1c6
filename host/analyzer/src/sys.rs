//! The system calls of the analyzer for which no safe wrapper exists, and its allocator.
//!
//! The process has one thread, before and after each fork, so that nothing here races.
#![expect(unsafe_code, reason = "fork, wait4, timers and an allocator have no safe form")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Status of a worker that would have taken more memory than it may.
pub const EXIT_MEMORY: i32 = 3;

/// The allocator of the program: the system's, with a bound on what is allocated at once.
///
/// Beyond the bound the process ends with [`EXIT_MEMORY`], which tells a text that takes too much memory from a parser that
/// fails. The system's own limit on address space stands behind it.
pub struct Bounded {
    allocated: AtomicUsize,
    most: AtomicUsize,
}

impl Bounded {
    /// An allocator without a bound.
    pub const fn new() -> Self {
        Self { allocated: AtomicUsize::new(0), most: AtomicUsize::new(usize::MAX) }
    }

    /// Allows this many bytes from now on, beside those that are allocated already.
    pub fn allow(&self, bytes: usize) {
        self.most.store(self.allocated.load(Ordering::Relaxed).saturating_add(bytes), Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) {
        let before = self.allocated.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.most.load(Ordering::Relaxed) {
            exit(EXIT_MEMORY);
        }
    }

    fn give_back(&self, bytes: usize) {
        self.allocated.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn or_exit(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        exit(EXIT_MEMORY);
    }
    pointer
}

// SAFETY: every call goes to the system's allocator with the arguments that came, whose contract is the caller's; the counts
// beside it touch no memory that is given out.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout.size());
        // SAFETY: the caller's layout.
        or_exit(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.take(layout.size());
        // SAFETY: the caller's layout.
        or_exit(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.give_back(layout.size());
        // SAFETY: the caller's pointer and layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.take(size);
        self.give_back(layout.size());
        // SAFETY: the caller's pointer, layout and size.
        or_exit(unsafe { System.realloc(pointer, layout, size) })
    }
}

/// Ends the process at once, without running anything of it.
pub fn exit(status: i32) -> ! {
    // SAFETY: no memory is touched, and nothing of the process goes on.
    unsafe { libc::_exit(status) }
}

/// The two sides of a fork.
#[cfg(target_os = "linux")]
pub enum Forked {
    /// This is the child.
    Child,
    /// This is the parent of a child with this number.
    Parent(libc::pid_t),
}

/// Forks the process.
#[cfg(target_os = "linux")]
pub fn fork() -> io::Result<Forked> {
    // SAFETY: the process has one thread, so the child has all that it may wait for.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        child => Ok(Forked::Parent(child)),
    }
}

/// How a child ended and what it used.
#[cfg(target_os = "linux")]
pub struct Ended {
    /// Its status, if it ended by itself.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Processor time in microseconds.
    pub cpu_us: u64,
    /// The most memory that was resident, in KiB.
    pub peak_kib: u64,
}

/// Waits for a child to end.
#[cfg(target_os = "linux")]
pub fn wait(child: libc::pid_t) -> io::Result<Ended> {
    let mut status = 0;
    loop {
        // SAFETY: all fields of the structure are numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to locals that live through the call.
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
        return Ok(Ended {
            status: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            cpu_us: micros(usage.ru_utime) + micros(usage.ru_stime),
            peak_kib: u64::try_from(usage.ru_maxrss).unwrap_or(0),
        });
    }
}

/// Has `SIGPROF` end the process once it has used this much processor time.
pub fn end_after(milliseconds: u64) -> io::Result<()> {
    let seconds = libc::time_t::try_from(milliseconds / 1000).unwrap_or(libc::time_t::MAX);
    // Below a million, which every type of it holds.
    let micros = (milliseconds % 1000 * 1000) as libc::suseconds_t;
    let never = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let timer =
        libc::itimerval { it_interval: never, it_value: libc::timeval { tv_sec: seconds, tv_usec: micros.max(1) } };
    // SAFETY: the pointer is to a local that lives through the call; nothing is written back.
    match unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives the signals of memory faults back to the system, so that a stack that overflows ends the process by `SIGSEGV`.
pub fn faults_end_the_process() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default disposition is no function of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Closes every descriptor but the standard ones.
#[cfg(target_os = "linux")]
pub fn close_inherited() {
    // SAFETY: called before anything is opened, so that nothing owns one of them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Closes standard input and output.
#[cfg(target_os = "linux")]
pub fn close_standard() {
    for descriptor in [0, 1] {
        // SAFETY: the handles of the standard library for these two own nothing, and are not used again.
        unsafe { libc::close(descriptor) };
    }
}

/// Asks for a page of executable memory; for the test of the filter.
#[cfg(all(test, target_os = "linux"))]
pub fn map_executable() {
    let (read_and_run, private) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at a place that the system chooses, touches no memory that is in use.
    unsafe { libc::mmap(std::ptr::null_mut(), 4096, read_and_run, private, -1, 0) };
}

//! Diversion of running guests to an instruction that traps, by a signal to their thread.
//!
//! The handler changes the point at which the thread continues, and nothing else: its program counter if that lies in a
//! function of the guest, or the return address of the call by which the guest called the host. The instruction there
//! traps, and the engine ends the guest as it does for every trap.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, compiler_fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libc::{c_int, c_void, sigaction, siginfo_t, ucontext_t};
use wasmtime::{AsContextMut, Func};
use wasmtime_environ::{HostPtr, PtrSize as _};

use super::DivertibleCode;
use crate::engine::ASYNC_STACK_SIZE;

/// True if this system can divert guests.
pub(crate) const DIVERTS: bool = true;

/// The compiled form of a function that does nothing but trap: it sets up a frame, then `ud2` follows.
const TRAPPING_FUNCTION: [u8; 6] = [0x55, 0x48, 0x89, 0xe5, 0x0f, 0x0b];

/// Offset of `ud2` in it.
const TRAP_OFFSET: usize = 4;

/// Bytes of a return address and of the frame pointer below it.
const FRAME_HEADER: usize = 16;

/// A guest whose thread can be diverted from the guest's code.
pub(crate) struct Divertible {
    code: Arc<dyn DivertibleCode>,
    context: StoreContext,
    /// Address of the instruction that traps.
    trap: usize,
    signal: c_int,
    /// Thread that polls the guest, or 0.
    thread: AtomicI32,
    is_requested: AtomicBool,
    is_diverted: AtomicBool,
}

/// The engine's state of a store, in which compiled code records how it calls the host.
struct StoreContext(*const usize);

// SAFETY: the pointer is only an address. Only the signal handler reads through it, on the thread that polls the guest,
// where the guest's own code and the engine have access to it as well.
unsafe impl Send for StoreContext {}
// SAFETY: as above.
unsafe impl Sync for StoreContext {}

thread_local! {
    /// The guest that this thread polls.
    static CURRENT: Cell<*const Divertible> = const { Cell::new(ptr::null()) };
    /// Identifier of this thread, once the signal is unblocked; 0 before.
    static THREAD: Cell<i32> = const { Cell::new(0) };
}

impl Divertible {
    /// Creates the handle of the guest that a function belongs to. The function does nothing but trap, and the thread is
    /// diverted to its instruction.
    ///
    /// # Errors
    /// Fails if the process uses all real-time signals, or if the compiled function has another form than expected.
    ///
    /// # Safety
    /// The guest's store must outlive all use of [`enter`](Self::enter), and its engine must be of the version that
    /// `wasmtime_environ` describes.
    pub(crate) unsafe fn new(
        code: Arc<dyn DivertibleCode>,
        trap: Func,
        store: impl AsContextMut,
    ) -> io::Result<Option<Self>> {
        let signal = signal()?;
        let function: *const *const u8 = trap.to_raw(store).cast_const().cast();
        let layout = HostPtr.vm_func_ref();
        // SAFETY: a raw function is a pointer to the engine's description of it, which has the address of its code and of
        // its instance at these offsets. The code is longer than the compared bytes, because a frame is set up in every
        // function. An instance has the address of the state of its store at the other offset.
        let (context, trap) = unsafe {
            let instance = function.byte_add(usize::from(layout.vmctx())).cast::<*const *const usize>().read();
            let context = instance.byte_add(usize::from(HostPtr.vmcontext_store_context())).read();
            let code = function.byte_add(usize::from(layout.wasm_call())).read();
            if std::slice::from_raw_parts(code, TRAPPING_FUNCTION.len()) != TRAPPING_FUNCTION {
                return Err(io::Error::other("the compiled function that traps has an unknown form"));
            }
            (context, code as usize + TRAP_OFFSET)
        };
        Ok(Some(Self {
            code,
            context: StoreContext(context),
            trap,
            signal,
            thread: AtomicI32::new(0),
            is_requested: AtomicBool::new(false),
            is_diverted: AtomicBool::new(false),
        }))
    }

    /// Lets the calling thread be diverted until the returned guard is dropped. Meanwhile, the thread polls the guest.
    pub(crate) fn enter(&self) -> Entered<'_> {
        if THREAD.get() == 0 {
            unblock(self.signal);
            // SAFETY: the call has no preconditions.
            THREAD.set(unsafe { libc::gettid() });
        }
        let outer = CURRENT.replace(self);
        // The handler runs on this thread, so only the compiler could delay the change.
        compiler_fence(Ordering::SeqCst);
        self.thread.store(THREAD.get(), Ordering::SeqCst);
        Entered { guest: self, outer }
    }

    /// Returns the thread that polls the guest.
    pub(crate) fn thread(&self) -> Option<i32> {
        Some(self.thread.load(Ordering::SeqCst)).filter(|thread| *thread != 0)
    }

    /// Diverts the thread that polls the guest, if the thread is in the guest's code or will return to it.
    ///
    /// In between, in the few instructions by which the guest and the host call each other, it has no effect, so the
    /// caller repeats it while the guest is polled.
    pub(crate) fn divert(&self) {
        self.code.prepare();
        self.is_requested.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread() {
            // The thread may have ended since, which is no failure. If its identifier is used again, the other thread
            // handles the signal and finds no request.
            // SAFETY: the call accesses no memory of this process, which handles this signal.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, self.signal) };
        }
    }

    /// Returns true if the guest was diverted. It has ended, or ends when its call of the host returns.
    pub(crate) fn is_diverted(&self) -> bool {
        self.is_diverted.load(Ordering::SeqCst)
    }

    /// Diverts the interrupted thread.
    ///
    /// # Safety
    /// Must be called by the signal handler with its context, on the thread that polls the guest.
    unsafe fn redirect(&self, context: *mut ucontext_t) {
        if !self.is_requested.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: the system passes a valid context to the handler, which alone uses it.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        let pc = &mut registers[libc::REG_RIP as usize];
        if self.code.contains(*pc as usize) {
            *pc = self.trap as i64;
            self.is_diverted.store(true, Ordering::SeqCst);
            return;
        }
        let sp = registers[libc::REG_RSP as usize] as usize;
        let layout = HostPtr.vm_store_context();
        let read = |offset: u8| {
            // SAFETY: the store of the guest that this thread polls exists, and its state has a number at this offset.
            // Compiled code on this thread writes it with one instruction.
            unsafe { self.context.0.byte_add(usize::from(offset)).read_volatile() }
        };
        let frame = read(layout.last_wasm_exit_trampoline_fp());
        let return_address = read(layout.last_wasm_exit_pc());
        // SAFETY: as above. The guard is directly below the stack of the fiber that runs the guest.
        let guard = unsafe {
            let guard = self.context.0.byte_add(usize::from(layout.async_guard_range()));
            guard.cast::<Range<usize>>().read_volatile()
        };
        let stack = guard.end..guard.end.saturating_add(ASYNC_STACK_SIZE);
        // If the host code was not called by the guest, both values are zero, or are those of an earlier call, whose
        // frame may have been overwritten. The frame is then below the stack pointer, or does not have this return
        // address.
        let is_frame = guard.end != 0
            && stack.contains(&sp)
            && sp < frame
            && frame.is_multiple_of(size_of::<usize>())
            && stack.contains(&frame.saturating_add(FRAME_HEADER - 1));
        if !is_frame || !self.code.contains(return_address) {
            return;
        }
        let slot = (frame + size_of::<usize>()) as *mut usize;
        // SAFETY: the slot is in the part of this thread's stack that is in use, because it is above the stack pointer
        // and below the end. No reference to a return address exists.
        unsafe {
            if slot.read_volatile() == return_address {
                slot.write_volatile(self.trap);
                self.is_diverted.store(true, Ordering::SeqCst);
            }
        }
    }
}

/// Guard of a poll.
pub(crate) struct Entered<'a> {
    guest: &'a Divertible,
    outer: *const Divertible,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
        compiler_fence(Ordering::SeqCst);
        self.guest.thread.store(0, Ordering::SeqCst);
    }
}

/// Returns the processor time of a thread of this process, if the thread exists.
pub(crate) fn cpu_time_of_thread(thread: i32) -> Option<Duration> {
    /// Bits of a clock of one thread, which counts the time that the scheduler gave to it.
    const SCHEDULED_TIME_OF_THREAD: i32 = 0b110;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes to `time`, which is borrowed for the call. It refuses an unknown clock.
    let status = unsafe { libc::clock_gettime((!thread << 3) | SCHEDULED_TIME_OF_THREAD, &raw mut time) };
    (status == 0).then(|| Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Returns the signal, and installs its handler when it is called first.
fn signal() -> io::Result<c_int> {
    static SIGNAL: OnceLock<Option<c_int>> = OnceLock::new();
    // A program may inherit that all are ignored. One that it does not handle at all is preferred.
    let with = |action| (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| install_if(*signal, action));
    SIGNAL
        .get_or_init(|| with(libc::SIG_DFL).or_else(|| with(libc::SIG_IGN)))
        .ok_or_else(|| io::Error::other("all real-time signals of this process have handlers; leave one to codebox"))
}

/// Installs the handler for a signal whose action is `action`.
fn install_if(signal: c_int, action: usize) -> bool {
    // SAFETY: a zeroed action is a valid value: the default action with an empty mask.
    let (mut new, mut old): (sigaction, sigaction) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the call only writes the present action to `old`.
    if unsafe { libc::sigaction(signal, ptr::null(), &raw mut old) } != 0 || old.sa_sigaction != action {
        return false;
    }
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    new.sa_sigaction = handler as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler uses only atomic values, thread-local values without a destructor and plain memory.
    unsafe { libc::sigaction(signal, &raw const new, ptr::null_mut()) == 0 }
}

extern "C" fn handle(_signal: c_int, _info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: a non-null pointer is that of the guest that this thread polls, whose guard keeps it borrowed. The system passes
    // this type of context to a handler with these flags.
    if let Some(guest) = unsafe { CURRENT.get().as_ref() } {
        // SAFETY: as above.
        unsafe { guest.redirect(context.cast()) };
    }
}

/// Lets the calling thread receive the signal. Threads inherit the mask of their creator, which may block all signals.
fn unblock(signal: c_int) {
    // SAFETY: the set is initialised by `sigemptyset` before its use, and both calls access only the set.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

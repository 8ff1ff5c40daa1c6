//! Platform-specific code, in one file per platform.

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod divert;
#[cfg(miri)]
mod miri;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(miri))))]
mod no_divert;
#[cfg(all(target_os = "linux", not(miri)))]
mod pagemap;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
pub(crate) use divert::{DIVERTS, Divertible, cpu_time_of_thread};
#[cfg(miri)]
pub(crate) use miri::{Pagemap, Reservation, map_equal_pages, page_faults};
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(miri))))]
pub(crate) use no_divert::{DIVERTS, Divertible, cpu_time_of_thread};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use pagemap::{Pagemap, page_faults};
#[cfg(all(unix, not(miri)))]
pub(crate) use unix::Reservation;
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use unix::map_equal_pages;
#[cfg(unix)]
pub(crate) use unix::{
    identity, make_executable, make_private, make_public, page_size, process_cpu_time, thread_cpu_time,
};
#[cfg(windows)]
pub(crate) use windows::{
    Reservation, identity, make_executable, make_private, make_public, page_size, thread_cpu_time,
};

/// Compiled code from which a guest can be diverted.
///
/// # Safety
/// [`contains`](Self::contains) must be safe to call in a signal handler: it takes no lock and allocates nothing. It must
/// return true only for an address in a function that the guest defines, where the engine can end the guest.
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", not(miri))),
    expect(dead_code, reason = "no guest is diverted on this system")
)]
pub(crate) unsafe trait DivertibleCode: Send + Sync {
    /// Prepares [`contains`](Self::contains) for all code that is loaded.
    fn prepare(&self);

    /// Returns true if an address is in a function of the guest.
    fn contains(&self, address: usize) -> bool;
}

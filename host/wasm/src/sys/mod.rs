//! Platform-specific code, in one file per platform.

#[cfg(miri)]
mod miri;
#[cfg(all(target_os = "linux", not(miri)))]
mod pagemap;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(miri)]
pub(crate) use miri::{Pagemap, Reservation, page_faults};
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use pagemap::{Pagemap, page_faults};
#[cfg(all(unix, not(miri)))]
pub(crate) use unix::Reservation;
#[cfg(unix)]
pub(crate) use unix::{identity, make_executable, make_private, page_size, process_cpu_time, thread_cpu_time};
#[cfg(windows)]
pub(crate) use windows::{Reservation, identity, make_executable, make_private, page_size, thread_cpu_time};

//! Platform-specific code, in one file per platform.

#[cfg(target_os = "linux")]
mod pagemap;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use pagemap::{Pagemap, page_faults};
#[cfg(unix)]
pub(crate) use unix::{Reservation, identity, make_private, process_cpu_time, thread_cpu_time};
#[cfg(windows)]
pub(crate) use windows::{Reservation, identity, make_private, thread_cpu_time};

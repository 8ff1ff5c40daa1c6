//! What differs between systems, a file for each.

#[cfg(target_os = "linux")]
mod pagemap;
#[cfg(unix)]
mod unix;

#[cfg(target_os = "linux")]
pub(crate) use pagemap::{Pagemap, page_faults};
#[cfg(unix)]
pub(crate) use unix::{Reservation, file_time, thread_cpu_time};

//! What differs between systems, a file for each.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub(crate) use system::{build_private, changed_at, open_without_waiting};
pub use system::{file_time, open_itself};

//! What differs between systems, a file for each.

#[cfg(unix)]
mod mount;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

#[cfg(unix)]
pub(crate) use mount::Mount;
pub(crate) use system::{
    Unlocked, above, allocated, build_private, changed_at, is_runnable, lent_powers, make_runnable,
    open_without_waiting, special_kind, take_access,
};
pub use system::{file_time, open_itself};
#[cfg(windows)]
pub(crate) use windows::Mount;

/// Why something below a directory is left alone.
pub(crate) const MOUNTED: &str = "another file system is mounted there";

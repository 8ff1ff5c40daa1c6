//! Platform-specific operations, in one module for each platform.

#[cfg(unix)]
mod mount;
#[cfg(unix)]
mod owner;
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
#[cfg(unix)]
pub(crate) use owner::{check_own, check_own_or_private, check_own_or_root, check_parents, check_way};
pub(crate) use system::{
    Unlocked, above, allocated, build_private, changed_at, identity, is_runnable, lent_powers, make_program,
    make_runnable, may_run, open_directory_itself, open_without_waiting, special_kind, take_access,
};
pub use system::{file_time, open_itself};
#[cfg(windows)]
pub(crate) use windows::{Mount, check_own, check_own_or_private, check_own_or_root, check_parents, check_way};

/// The reason why a directory is not removed.
pub(crate) const MOUNTED: &str = "another file system is mounted there";

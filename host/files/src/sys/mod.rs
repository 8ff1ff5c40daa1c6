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
pub(crate) use owner::{check_own, check_parents};
#[cfg(unix)]
pub use owner::{check_own_or_private, check_own_or_root, check_resolved_path};
pub(crate) use system::{
    OwnerAccessGuard, allocated_bytes, change_time, grant_owner_access, identity, is_executable, is_executable_by_all,
    parent_dir, set_directory_nofollow, set_executable, set_id_bits, set_nonblock, set_private_mode, set_program_mode,
    special_kind,
};
pub use system::{file_time, set_nofollow};
#[cfg(windows)]
pub(crate) use windows::{Mount, check_own, check_parents};

#[cfg(windows)]
pub use windows::{check_own_or_private, check_own_or_root, check_resolved_path};

/// The reason why a directory is not removed.
pub(crate) const MOUNT_POINT_REASON: &str = "another file system is mounted there";

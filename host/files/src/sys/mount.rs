//! Identity of mounted file systems.

use std::io;

use rustix::fd::AsFd;

/// A mounted file system as seen by this process.
///
/// Two mounts of the same directory are different mounts on systems with mount ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mount {
    /// The mount id.
    #[cfg(target_os = "linux")]
    Id(u64),
    /// The device number, on systems without mount ids.
    Device(rustix::fs::Dev),
}

impl Mount {
    /// Returns the mount of an open directory.
    pub(crate) fn of(handle: impl AsFd) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(mount_id) = mount_id(&handle) {
            return Ok(Self::Id(mount_id));
        }
        Ok(Self::Device(rustix::fs::fstat(handle)?.st_dev))
    }
}

/// Returns the mount id (Linux 5.8 and later).
#[cfg(target_os = "linux")]
fn mount_id(handle: impl AsFd) -> Option<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let seen = statx(handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (seen.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(seen.stx_mnt_id)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn distinguishes_mounts() -> anyhow::Result<()> {
        let (root, proc, inner) = (File::open("/")?, File::open("/proc")?, File::open("/proc/self")?);
        assert_ne!(Mount::of(&root)?, Mount::of(&proc)?);
        assert_eq!(Mount::of(&proc)?, Mount::of(&inner)?);
        assert!(matches!(Mount::of(&root)?, Mount::Id(_)), "the system reports the mount id");
        Ok(())
    }
}

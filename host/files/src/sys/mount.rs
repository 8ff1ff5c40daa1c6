//! Which mounted file system a directory is on.

use std::io;

use rustix::fd::AsFd;

/// A mounted file system, as this process sees it.
///
/// The same directory mounted at two places is two mounts, where the system tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mount {
    /// The number of the mount.
    #[cfg(target_os = "linux")]
    Number(u64),
    /// The number of the device: all that older systems say.
    Device(rustix::fs::Dev),
}

impl Mount {
    /// The mount that an open directory is on.
    pub(crate) fn of(handle: impl AsFd) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(number) = number(&handle) {
            return Ok(Self::Number(number));
        }
        Ok(Self::Device(rustix::fs::fstat(handle)?.st_dev))
    }
}

/// The number of a mount (Linux 5.8 and later).
#[cfg(target_os = "linux")]
fn number(handle: impl AsFd) -> Option<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let seen = statx(handle, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (seen.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(seen.stx_mnt_id)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn mounts_are_told_apart() -> anyhow::Result<()> {
        let (root, proc, inner) = (File::open("/")?, File::open("/proc")?, File::open("/proc/self")?);
        assert_ne!(Mount::of(&root)?, Mount::of(&proc)?);
        assert_eq!(Mount::of(&proc)?, Mount::of(&inner)?);
        assert!(matches!(Mount::of(&root)?, Mount::Number(_)), "the system tells the number");
        Ok(())
    }
}

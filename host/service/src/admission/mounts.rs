//! File systems mounted below a granted directory.
//!
//! Directory handles confine symbolic links to a grant, but not mounts: a mount below the granted directory is followed
//! to any file system. Admission therefore refuses a directory with a mount below it.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the first mount point below `directory`, which may itself be a mount point.
pub(super) fn nested<'a>(directory: &Path, mount_points: &'a [PathBuf]) -> Option<&'a Path> {
    mount_points.iter().map(PathBuf::as_path).find(|place| *place != directory && place.starts_with(directory))
}

#[cfg(target_os = "linux")]
pub(super) fn of_this_machine() -> io::Result<Vec<PathBuf>> {
    Ok(read(&std::fs::read("/proc/self/mountinfo")?))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_this_machine() -> io::Result<Vec<PathBuf>> {
    Ok(Vec::new())
}

/// Returns the mount points in a `mountinfo` file: the fifth field of every line.
#[cfg(target_os = "linux")]
fn read(mountinfo: &[u8]) -> Vec<PathBuf> {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;

    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsString::from_vec(unescaped(field))))
        .collect()
}

/// Decodes the octal escapes in a field, such as `\040` for a space.
#[cfg(target_os = "linux")]
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] = rest {
            bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_strictly_below_count() {
        let points: Vec<PathBuf> = ["/", "/data", "/data-2/x", "/srv/a/b"].into_iter().map(PathBuf::from).collect();
        assert_eq!(nested(Path::new("/data"), &points), None);
        assert_eq!(nested(Path::new("/srv"), &points), Some(Path::new("/srv/a/b")));
        assert_eq!(nested(Path::new("/srv/a/b/c"), &points), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn reads_the_kernels_list() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            40 22 0:5 /x /mnt/a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\n";
        assert_eq!(read(text), [PathBuf::from("/"), PathBuf::from("/mnt/a b\\c")]);
        let here = of_this_machine().expect("procfs is mounted");
        assert!(here.contains(&PathBuf::from("/proc")), "{here:?}");
    }
}

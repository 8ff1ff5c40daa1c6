//! Unpacks arbitrary bytes as a wheel and as an npm tarball.
#![no_main]

use std::fs;
use std::path::Path;

use codebox_core::Silent;
use codebox_packages::{UnpackLimits, unpack_tarball, unpack_wheel_within};
use libfuzzer_sys::fuzz_target;

const LIMITS: UnpackLimits = UnpackLimits { bytes: 1 << 20, members: 100 };

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir_in(Path::new("/dev/shm")).expect("a directory in memory");
    let wheel = folder.path().join("a.whl");
    fs::write(&wheel, bytes).expect("written");
    let target_dir = folder.path().join("wheel");
    let unpacked = unpack_wheel_within(&LIMITS, &wheel, &[""], &target_dir, &Silent);
    check(folder.path(), &target_dir, unpacked.is_ok());
    assert!(unpacked.is_ok() || !target_dir.exists(), "a wheel leaves nothing");
    let _ = fs::remove_dir_all(&target_dir);
    let target_dir = folder.path().join("tarball");
    let unpacked = unpack_tarball(&LIMITS, "a.tgz", bytes, &target_dir);
    check(folder.path(), &target_dir, unpacked.is_ok());
});

/// Checks that the folder holds only the wheel and the output directory, that the output has no links, and that after a
/// success its size is within the limit.
fn check(folder: &Path, target_dir: &Path, is_ok: bool) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        assert!(entry.file_name() == "a.whl" || entry.path() == target_dir, "{:?}", entry.file_name());
    }
    if target_dir.exists() {
        let mut size = 0;
        walk(target_dir, &mut size);
        assert!(!is_ok || size <= LIMITS.bytes, "{size} bytes");
    }
}

fn walk(folder: &Path, size: &mut u64) {
    for entry in fs::read_dir(folder).expect("a directory").flatten() {
        let meta = entry.path().symlink_metadata().expect("it is there");
        assert!(meta.is_dir() || meta.is_file(), "{:?}", entry.path());
        if meta.is_dir() { walk(&entry.path(), size) } else { *size += meta.len() }
    }
}

//! Parses arbitrary text as package metadata, requirements and lock files.
#![no_main]

use codebox_packages::{Lock, Requirement, is_among, metadata_in_wheel, requirements_of_file, script_metadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = script_metadata(bytes);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let wheel = folder.path().join("a.whl");
    std::fs::write(&wheel, bytes).expect("written");
    if let Some(text) = metadata_in_wheel(&wheel) {
        assert!(text.len() <= (1 << 20) + 1, "{} bytes", text.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = requirements_of_file(text);
    let _ = Lock::parse(text);
    if let Some((version, versions)) = text.split_once('\n') {
        let _ = is_among(version, versions);
    }
    if let Ok(requirement) = text.parse::<Requirement>() {
        let again = requirement.to_string().parse::<Requirement>().map(|again| again.to_string());
        assert_eq!(again.ok(), Some(requirement.to_string()));
    }
});

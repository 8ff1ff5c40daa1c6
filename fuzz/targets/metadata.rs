//! Parses arbitrary text as package metadata, requirements and lock files.
#![no_main]

use codebox_packages::{Lock, Requirement, version_satisfies, metadata_in_wheel, parse_requirements_file, parse_script_metadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_script_metadata(bytes);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let wheel = folder.path().join("a.whl");
    std::fs::write(&wheel, bytes).expect("written");
    if let Some(text) = metadata_in_wheel(&wheel) {
        assert!(text.len() <= (1 << 20) + 1, "{} bytes", text.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = parse_requirements_file(text);
    let _ = Lock::parse(text);
    if let Some((version, versions)) = text.split_once('\n') {
        let _ = version_satisfies(version, versions);
    }
    if let Ok(requirement) = text.parse::<Requirement>() {
        let reparsed = requirement.to_string().parse::<Requirement>().map(|reparsed| reparsed.to_string());
        assert_eq!(reparsed.ok(), Some(requirement.to_string()));
    }
});

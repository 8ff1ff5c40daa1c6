//! Parses the message that a confined process hands over to an unconfined one.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../host/cli/src/handover.rs"]
mod handover;

fuzz_target!(|bytes: &[u8]| {
    if let Some(read) = handover::read(&mut &*bytes) {
        let mut encoded = Vec::new();
        handover::write(&read, &mut encoded).expect("a vector takes all");
        assert_eq!(handover::read(&mut encoded.as_slice()), Some(read));
    }
});

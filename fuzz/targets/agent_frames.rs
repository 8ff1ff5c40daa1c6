//! Decodes frames from arbitrary pieces, and the messages of both sides and of shims from the frames.
#![no_main]

use codebox_agent::command::{ShimEvent, ShimRequest, pack, unpack};
use codebox_agent::frame::{Decoder, Frame, encode};
use codebox_agent::{Event, Request};
use libfuzzer_sys::fuzz_target;

const MAX_PAYLOAD: usize = 1 << 16;

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let expected = frames([bytes].into_iter());
    let chunks_of_bytes = frames(bytes.chunks(usize::from(size) + 1));
    assert_eq!(expected, chunks_of_bytes, "the pieces do not matter");
    for Frame { kind, payload } in expected {
        assert!(payload.len() <= MAX_PAYLOAD);
        let frame = || Frame { kind, payload: payload.clone() };
        if let Some(event) = Event::decode(frame()) {
            let decoded = frames([event.encode().as_slice()].into_iter()).pop().and_then(Event::decode);
            assert_eq!(decoded, Some(event));
        }
        if let Some(request) = Request::decode(frame()) {
            let decoded = frames([request.encode().as_slice()].into_iter()).pop().and_then(Request::decode);
            assert_eq!(decoded, Some(request));
        }
        if let Some(event) = ShimEvent::decode(frame()) {
            let decoded = frames([event.encode().as_slice()].into_iter()).pop().and_then(ShimEvent::decode);
            assert_eq!(decoded, Some(event));
        }
        if let Some(request) = unpack::<ShimRequest>(&payload) {
            assert_eq!(unpack(&pack(&request)), Some(request));
        }
        assert_eq!(frames([encode(kind, &payload).as_slice()].into_iter()), [frame()]);
    }
});

fn frames<'p>(chunks_of_bytes: impl Iterator<Item = &'p [u8]>) -> Vec<Frame> {
    let mut decoder = Decoder::new(MAX_PAYLOAD);
    let mut frames = Vec::new();
    for chunk in chunks_of_bytes {
        decoder.push(chunk);
        while let Ok(Some(frame)) = decoder.next_frame() {
            frames.push(frame);
        }
    }
    frames
}

//! Decodes frames from arbitrary pieces, and the messages of both sides from the frames.
#![no_main]

use codebox_agent::frame::{Decoder, Frame, encode};
use codebox_agent::{Order, Word};
use libfuzzer_sys::fuzz_target;

const MOST: usize = 1 << 16;

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = frames([bytes].into_iter());
    let pieces = frames(bytes.chunks(usize::from(size) + 1));
    assert_eq!(whole, pieces, "the pieces do not matter");
    for Frame { kind, payload } in whole {
        assert!(payload.len() <= MOST);
        let frame = || Frame { kind, payload: payload.clone() };
        if let Some(word) = Word::decode(frame()) {
            let again = frames([word.encode().as_slice()].into_iter()).pop().and_then(Word::decode);
            assert_eq!(again, Some(word));
        }
        if let Some(order) = Order::decode(frame()) {
            let again = frames([order.encode().as_slice()].into_iter()).pop().and_then(Order::decode);
            assert_eq!(again, Some(order));
        }
        assert_eq!(frames([encode(kind, &payload).as_slice()].into_iter()), [frame()]);
    }
});

fn frames<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Vec<Frame> {
    let mut decoder = Decoder::new(MOST);
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next_frame() {
            frames.push(frame);
        }
    }
    frames
}

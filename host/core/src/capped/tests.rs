use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn sink(cap: u64) -> CappedSink {
    CappedSink::new(Limit::At(ByteSize::bytes(cap)))
}

#[test]
fn keeps_output_up_to_cap_and_counts_the_rest() {
    let mut sink = sink(5);
    assert_eq!(sink.push(b"abcde"), Completeness::All);
    assert_eq!(sink.push(b""), Completeness::All);
    assert_eq!(sink.push(b"f"), Completeness::Truncated);
    assert_eq!(sink.total(), 6);
    let kept = sink.finish();
    assert_eq!((kept.head, kept.tail, kept.dropped), (b"abc".to_vec(), b"ef".to_vec(), 1));
}

#[test]
fn tiny_cap_keeps_no_tail() {
    for (cap, head) in [(0, &b""[..]), (1, b"a")] {
        let mut sink = sink(cap);
        sink.push(b"abc");
        let kept = sink.finish();
        assert_eq!((kept.head.as_slice(), kept.tail.as_slice()), (head, &b""[..]));
        assert_eq!(kept.dropped, 3 - cap);
    }
}

#[test]
fn unlimited_cap_keeps_everything() {
    let mut sink = CappedSink::new(Limit::Unlimited);
    for _ in 0..1000 {
        assert_eq!(sink.push(&[7; 1000]), Completeness::All);
    }
    assert_eq!(sink.finish().head.len(), 1_000_000);
}

#[test]
fn single_byte_writes_stay_within_cap() {
    let cap = 1 << 16;
    let mut sink = sink(cap);
    for n in 0..3_000_000_u32 {
        sink.push(&[n as u8]);
        debug_assert!(sink.head.capacity() + sink.tail.capacity() <= cap as usize);
    }
    assert!(sink.head.capacity() + sink.tail.capacity() <= cap as usize);
    assert_eq!(sink.finish().total(), 3_000_000);
}

#[test]
fn huge_cap_reserves_no_memory() {
    let mut sink = sink(u64::MAX);
    sink.push(b"x");
    assert!(sink.head.capacity() <= 1024);
}

proptest! {
    #[test]
    fn matches_unbounded_reference(
        cap in 0_usize..40,
        writes in vec(vec(any::<u8>(), 0..30), 0..20),
    ) {
        let mut sink = sink(cap as u64);
        let mut all = Vec::new();
        for write in &writes {
            let kept = sink.push(write);
            all.extend_from_slice(write);
            prop_assert_eq!(kept == Completeness::All, all.len() <= cap);
            prop_assert!(sink.head.capacity() + sink.tail.capacity() <= cap);
        }
        prop_assert_eq!(sink.total(), all.len() as u64);
        let kept = sink.finish();
        if all.len() <= cap {
            prop_assert_eq!(kept.bytes().into_owned(), all);
            prop_assert_eq!(kept.dropped, 0);
        } else {
            prop_assert_eq!(kept.head.as_slice(), &all[..cap - cap / 2]);
            prop_assert_eq!(kept.tail.as_slice(), &all[all.len() - cap / 2..]);
            prop_assert_eq!(kept.dropped, (all.len() - cap) as u64);
        }
    }
}

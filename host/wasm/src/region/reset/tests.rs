use std::io::Write;
use std::sync::Arc;

use super::*;
use crate::image::{ImageFacts, MemoryImage};

const PAGES: usize = 64;

fn region() -> Region {
    let mut file = tempfile::tempfile().expect("a file");
    let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / 7) as u8).collect();
    file.write_all(&bytes).expect("room for an image");
    let facts = ImageFacts { globals: Vec::new(), entry: None, seeds: Vec::new(), imports: Vec::new() };
    let image = MemoryImage::open("image".as_ref(), file, facts).expect("whole pages");
    Region::map(Arc::new(image)).expect("address space")
}

/// A job that writes one byte into each of these pages.
fn job(region: &mut Region, pages: &[usize]) {
    region.lend();
    for page in pages {
        // SAFETY: the page is within the image, and nothing else uses the region.
        let bytes = unsafe { region.space.bytes_mut(page * PAGE..page * PAGE + PAGE) };
        bytes[page % PAGE] = !bytes[page % PAGE];
    }
    region.reset().expect("this kernel tells written pages");
}

#[test]
fn a_write_to_a_page_never_written_before_is_a_page_fault() {
    let mut region = region();
    for page in 0..PAGES {
        let before = page_faults().expect("the kernel counts faults");
        // SAFETY: as in `job`.
        unsafe { region.space.bytes_mut(page * PAGE..page * PAGE + 1) }.fill(0xa5);
        assert!(page_faults().expect("the kernel counts faults") > before, "page {page}");
    }
}

#[test]
fn a_write_by_a_system_call_is_a_page_fault_too() {
    let mut region = region();
    let mut source = std::fs::File::open("/dev/zero").expect("zeroes");
    let before = page_faults().expect("the kernel counts faults");
    // SAFETY: as in `job`.
    std::io::Read::read_exact(&mut source, unsafe { region.space.bytes_mut(0..16) }).expect("zeroes have no end");
    assert!(page_faults().expect("the kernel counts faults") > before);
}

#[test]
fn what_is_known_to_be_private_is_put_back_without_asking_again() {
    let mut region = region();
    job(&mut region, &[1, 2, 30]);
    assert!(region.equals_image());
    let known = region.history.private.clone().expect("known after a reset");
    assert_eq!(known.iter().map(ExactSizeIterator::len).sum::<usize>(), 3 * PAGE);
    for _ in 0..100 {
        job(&mut region, &[2, 30]);
        assert!(region.equals_image());
    }
}

#[test]
fn a_page_that_becomes_private_later_is_found() {
    let mut region = region();
    for last in 1..PAGES {
        job(&mut region, &[0, last]);
        assert!(region.equals_image(), "page {last}");
        let known = region.history.private.as_ref().expect("known after a reset");
        assert_eq!(known.iter().map(ExactSizeIterator::len).sum::<usize>(), (last + 1) * PAGE);
    }
}

#[test]
fn many_unchanged_private_pages_are_given_back() {
    let mut region = region();
    let everything: Vec<usize> = (0..PAGES).collect();
    job(&mut region, &everything);
    // Too few to count as many: they are kept.
    for _ in 0..=PATIENCE {
        job(&mut region, &[0]);
    }
    assert_ne!(region.history.private, Some(Vec::new()));
    region.drop_private().expect("the system takes pages back");
    job(&mut region, &[5]);
    assert!(region.equals_image());
    assert_eq!(region.history.private.as_deref(), Some(std::slice::from_ref(&(5 * PAGE..6 * PAGE))));
}

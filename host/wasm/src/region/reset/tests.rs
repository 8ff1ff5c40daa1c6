use std::io::Write;
use std::sync::Arc;

use super::*;
use crate::image::{ImageFacts, MemoryImage};
use crate::region::{RegionPool, ResetVerification};

const PAGES: usize = 64;

fn region() -> Region {
    let mut file = tempfile::tempfile().expect("a file");
    let bytes: Vec<u8> = (0..PAGES * PAGE).map(|at| (at / 7) as u8).collect();
    file.write_all(&bytes).expect("room for an image");
    let facts = ImageFacts { globals: Vec::new(), entry: None, seeds: Vec::new(), imports: Vec::new() };
    let image = MemoryImage::open("image".as_ref(), file, facts).expect("whole pages");
    Region::map(Arc::new(image)).expect("address space")
}

/// Runs a job that writes one byte into each of these pages.
fn job(region: &mut Region, pages: &[usize]) {
    region.lend();
    for page in pages {
        // SAFETY: the page is within the image, and the region has no other user.
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
    // Too few pages to count as many: they are kept.
    for _ in 0..=PATIENCE {
        job(&mut region, &[0]);
    }
    assert_ne!(region.history.private, Some(Vec::new()));
    region.drop_private().expect("the system takes pages back");
    job(&mut region, &[5]);
    assert!(region.equals_image());
    assert_eq!(region.history.private.as_deref(), Some(std::slice::from_ref(&(5 * PAGE..6 * PAGE))));
}

#[test]
fn a_reset_that_missed_a_page_is_found_by_its_verification() {
    for (verified, kept) in [(false, 1), (true, 0)] {
        let verification = Arc::new(ResetVerification::default());
        verification.set(verified);
        let mut region = region();
        let pool = RegionPool::new(region.image().clone(), 1, Arc::clone(&verification));
        job(&mut region, &[1, 2]);
        // Simulates a page that became private without a page fault, which the verification has to find.
        region.history.private = Some(Vec::new());
        region.lend();
        // SAFETY: as in `job`. The page is private already, so the write causes no page fault.
        let page = unsafe { region.space.bytes_mut(PAGE..PAGE + 1) };
        page[0] ^= 0xff;
        region.history.faults = page_faults();
        pool.take_back(region);
        let checks = verification.checks();
        assert_eq!((checks.verified, checks.failed), (u64::from(verified), u64::from(verified)));
        let leases: Vec<_> = (0..1).map(|_| pool.lease(0, Arc::default()).expect("address space")).collect();
        assert_eq!(pool.counts().1, kept, "a region that failed is not lent again");
        drop(leases);
    }
}

#[test]
fn a_good_reset_passes_its_verification() {
    let verification = Arc::new(ResetVerification::default());
    verification.set(true);
    let first = region();
    let pool = RegionPool::new(first.image().clone(), 1, Arc::clone(&verification));
    pool.take_back(first);
    for round in 0..20 {
        let mut lease = pool.lease(0, Arc::default()).expect("address space");
        // SAFETY: as in `job`.
        unsafe { lease.region.space.bytes_mut(round * PAGE..(round + 1) * PAGE) }.fill(round as u8);
        pool.take_back(lease.region);
    }
    let checks = verification.checks();
    assert_eq!((checks.verified, checks.failed, pool.counts()), (21, 0, (0, 20)));
}

use std::io::Write;
use std::sync::Arc;

use super::*;
use crate::engine::MEMORY_RESERVATION;
use crate::image::{ImageFacts, MemoryImage};
use crate::region::{Capacity, RegionPool, ResetVerification};

const PAGES: usize = 64;

fn region() -> Region {
    let mut file = tempfile::tempfile().expect("a file");
    let bytes: Vec<u8> = (0..PAGES * PAGE_SIZE).map(|at| (at / 7) as u8).collect();
    file.write_all(&bytes).expect("the image is written");
    let facts = ImageFacts::default();
    let image = MemoryImage::open("image".as_ref(), file, facts).expect("whole pages");
    Region::map(Arc::new(image)).expect("address space")
}

/// Runs a job that writes one byte into each of these pages.
fn run_job(region: &mut Region, pages: &[usize]) {
    region.record_lease();
    for page in pages {
        // SAFETY: the page is within the image, and the region has no other user.
        let bytes = unsafe { region.space.bytes_mut(page * PAGE_SIZE..page * PAGE_SIZE + PAGE_SIZE) };
        bytes[page % PAGE_SIZE] = !bytes[page % PAGE_SIZE];
    }
    region.reset().expect("the kernel reports written pages");
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn first_write_to_page_faults() {
    let mut region = region();
    for page in 0..PAGES {
        let before = page_faults().expect("the kernel counts faults");
        // SAFETY: as in `run_job`.
        unsafe { region.space.bytes_mut(page * PAGE_SIZE..page * PAGE_SIZE + 1) }.fill(0xa5);
        assert!(page_faults().expect("the kernel counts faults") > before, "page {page}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn first_write_by_system_call_faults() {
    let mut region = region();
    let mut source = std::fs::File::open("/dev/zero").expect("/dev/zero exists");
    let before = page_faults().expect("the kernel counts faults");
    // SAFETY: as in `run_job`.
    std::io::Read::read_exact(&mut source, unsafe { region.space.bytes_mut(0..16) }).expect("/dev/zero is endless");
    assert!(page_faults().expect("the kernel counts faults") > before);
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn restores_known_private_pages() {
    let mut region = region();
    run_job(&mut region, &[1, 2, 30]);
    assert!(region.equals_image());
    let known = region.history.private.clone().expect("known after a reset");
    assert_eq!(known.iter().map(ExactSizeIterator::len).sum::<usize>(), 3 * PAGE_SIZE);
    for _ in 0..100 {
        run_job(&mut region, &[2, 30]);
        assert!(region.equals_image());
    }
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn finds_newly_private_pages() {
    let mut region = region();
    for last in 1..PAGES {
        run_job(&mut region, &[0, last]);
        assert!(region.equals_image(), "page {last}");
        let known = region.history.private.as_ref().expect("known after a reset");
        assert_eq!(known.iter().map(ExactSizeIterator::len).sum::<usize>(), (last + 1) * PAGE_SIZE);
    }
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn discards_unchanged_private_pages() {
    let mut region = region();
    let everything: Vec<usize> = (0..PAGES).collect();
    run_job(&mut region, &everything);
    // Too few pages to count as many: they are kept.
    for _ in 0..=MAX_QUIET_JOBS {
        run_job(&mut region, &[0]);
    }
    assert_ne!(region.history.private, Some(Vec::new()));
    region.discard_private_pages().expect("the system takes pages back");
    run_job(&mut region, &[5]);
    assert!(region.equals_image());
    assert_eq!(region.history.private.as_deref(), Some(std::slice::from_ref(&(5 * PAGE_SIZE..6 * PAGE_SIZE))));
}

#[test]
#[cfg_attr(miri, ignore = "it needs the list of written pages of a kernel")]
fn verification_detects_missed_page() {
    for (verified, kept) in [(false, 1), (true, 0)] {
        let verification = Arc::new(ResetVerification::default());
        verification.set(verified);
        let mut region = region();
        let pool = RegionPool::new(region.image().clone(), Capacity::Regions(1), Arc::clone(&verification));
        run_job(&mut region, &[1, 2]);
        // Simulates a page that became private without a page fault, which the verification has to find.
        region.history.private = Some(Vec::new());
        region.record_lease();
        // SAFETY: as in `run_job`. The page is private already, so the write causes no page fault.
        let page = unsafe { region.space.bytes_mut(PAGE_SIZE..PAGE_SIZE + 1) };
        page[0] ^= 0xff;
        region.history.faults = page_faults();
        pool.release(region);
        let checks = verification.checks();
        assert_eq!((checks.verified, checks.failed), (u64::from(verified), u64::from(verified)));
        let leases: Vec<_> = (0..1).map(|_| pool.lease(0, Arc::default()).expect("address space")).collect();
        assert_eq!(pool.counts().1, kept, "a region that failed is not lent again");
        drop(leases);
    }
}

#[test]
fn verification_accepts_correct_reset() {
    let verification = Arc::new(ResetVerification::default());
    verification.set(true);
    let first = region();
    let pool = RegionPool::new(first.image().clone(), Capacity::Regions(1), Arc::clone(&verification));
    pool.release(first);
    for round in 0..20 {
        let mut lease = pool.lease(0, Arc::default()).expect("address space");
        // SAFETY: as in `run_job`.
        unsafe { lease.region.space.bytes_mut(round * PAGE_SIZE..(round + 1) * PAGE_SIZE) }.fill(round as u8);
        pool.release(lease.region);
    }
    let checks = verification.checks();
    assert_eq!((checks.verified, checks.failed, pool.counts()), (21, 0, (0, 20)));
}

#[test]
fn restores_written_and_grown_memory() {
    let mut region = region();
    let len = region.image().len();
    for round in 0..3 {
        region.grow_to(len + 2 * PAGE_SIZE).expect("the memory grows");
        // SAFETY: the range is accessible, and the region has no other user.
        let grown = unsafe { region.space.bytes_mut(len..len + 2 * PAGE_SIZE) };
        assert!(grown.iter().all(|byte| *byte == 0), "round {round}");
        grown.fill(0xa5);
        run_job(&mut region, &[0, 7, PAGES - 1]);
        assert_eq!(region.accessible(), len);
        assert!(region.equals_image(), "round {round}");
    }
    assert!(region.grow_to(MEMORY_RESERVATION + 1).is_err());
}

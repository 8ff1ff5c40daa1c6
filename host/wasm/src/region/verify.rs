//! Debug mode that compares every region with its image after a reset.
//!
//! A reset relies on the kernel's count of page faults and on its list of written pages. The comparison relies on
//! neither: it reads the whole region. It takes milliseconds, and a reset takes microseconds.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::region::Region;

/// State and results of the verification of resets, shared by all pools of a backend.
#[derive(Debug, Default)]
pub(crate) struct ResetVerification {
    enabled: AtomicBool,
    verified: AtomicU64,
    failed: AtomicU64,
}

/// Counts of verified resets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResetChecks {
    /// Number of resets after which the region was compared with its image.
    pub verified: u64,
    /// Number of comparisons that found a difference. A region that differs is not used again.
    pub failed: u64,
}

impl ResetVerification {
    /// Enables or disables the comparison of regions.
    pub(crate) fn set(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub(crate) fn checks(&self) -> ResetChecks {
        ResetChecks { verified: self.verified.load(Ordering::Relaxed), failed: self.failed.load(Ordering::Relaxed) }
    }

    /// Returns true if a region that was just reset may be used again.
    pub(crate) fn accepts(&self, region: &mut Region) -> bool {
        if !self.enabled.load(Ordering::Relaxed) {
            return true;
        }
        self.verified.fetch_add(1, Ordering::Relaxed);
        let is_clean = region.equals_image();
        if !is_clean {
            self.failed.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a memory region differs from its image after a reset; it is not used again");
        }
        is_clean
    }
}

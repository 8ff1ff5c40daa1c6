//! Limits on the concurrent reads of wheels.

use tokio::sync::Semaphore;
use uv_distribution_types::IndexCapabilities;

/// Maximum number of wheels that are read at once, in parts and as a whole: each takes memory or disk space before its
/// content is verified.
const MAX_CONCURRENT_READS: (usize, usize) = (8, 2);

/// Limits on concurrent reads of wheels, and the indexes without range requests.
pub(super) struct ReadLimits {
    /// The permits for wheels of which a part is read.
    pub(super) parts: Semaphore,
    /// The permits for wheels that are downloaded as a whole.
    pub(super) downloads: Semaphore,
    pub(super) capabilities: IndexCapabilities,
}

impl ReadLimits {
    /// Creates the limits. Indexes that turn out not to support range requests are recorded in `capabilities`.
    pub(super) fn new(capabilities: IndexCapabilities) -> Self {
        let (parts, downloads) = MAX_CONCURRENT_READS;
        Self { parts: Semaphore::new(parts), downloads: Semaphore::new(downloads), capabilities }
    }
}

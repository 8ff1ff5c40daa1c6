//! Progress reports of long steps.

/// Receiver of a step's progress. The methods are called often, from the thread that does the work, and must be fast.
pub trait Progress: Send + Sync {
    /// Starts a step on `what`, with a length of `total` bytes if known. Called again when a broken transfer restarts;
    /// the count then restarts at 0.
    fn started(&self, what: &str, total: Option<u64>);
    /// Adds bytes to the completed part of the step.
    fn advanced(&self, bytes: u64);
    /// Completes the step. Not called if the step fails, which its `Err` reports.
    fn finished(&self);
}

/// Receiver that ignores all reports.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str, _total: Option<u64>) {}
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
}

//! How a caller watches a long step.

/// Hears how far a step has come. Called often, from the thread that does the work: be quick.
pub trait Progress: Send + Sync {
    /// A step over `what` begins, `total` bytes long where that is known. Called again when a broken transfer starts
    /// over; the count then begins at 0 again.
    fn started(&self, what: &str, total: Option<u64>);
    /// This many more bytes are done.
    fn advanced(&self, bytes: u64);
    /// The step is complete. Not called when it failed; the step's `Err` says that.
    fn finished(&self);
}

/// Nobody is watching.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str, _total: Option<u64>) {}
    fn advanced(&self, _bytes: u64) {}
    fn finished(&self) {}
}

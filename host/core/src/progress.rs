/// Receiver of progress reports and messages of a long operation.
///
/// Called often, from the thread that does the work; implementations must be fast.
pub trait Progress: Send + Sync {
    /// Reports that a step over `what` begins, with its size if it is known.
    ///
    /// Called again when a broken transfer restarts; the count then restarts at 0.
    fn started(&self, what: &str, total_bytes: Option<u64>);

    /// Reports that this many more bytes are done.
    fn advanced(&self, bytes: u64);

    /// Reports that the step is complete. Not called if the step failed.
    fn finished(&self);

    /// Reports an event in one line, such as another process that is installing, or a skipped index.
    fn note(&self, _line: &str) {}

    /// Reports a detail in one line, such as the reason of a choice, for users who ask for details.
    fn detail(&self, _line: &str) {}
}

/// Progress receiver that ignores every report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn started(&self, _what: &str, _total_bytes: Option<u64>) {}

    fn advanced(&self, _bytes: u64) {}

    fn finished(&self) {}
}

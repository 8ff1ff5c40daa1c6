//! Errors of the analysis.

use std::time::Duration;

/// Reason why a text was not analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// The analysis exceeds the memory limit.
    #[error("parsing exceeded {} MiB of memory", .limit >> 20)]
    Memory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The analysis exceeds the limit on processor time.
    #[error("parsing exceeded {limit:?} of CPU time")]
    Cpu {
        /// The limit.
        limit: Duration,
    },
    /// The text is nested too deeply for the parser's stack.
    #[error("the program is nested too deeply to be parsed")]
    Stack,
    /// The parser failed.
    #[error("the parser crashed")]
    Crashed,
    /// The text is too long to be parsed.
    #[error("the program has {length} bytes, the maximum is {limit}")]
    Long {
        /// The length in bytes.
        length: usize,
        /// The largest length that is parsed, in bytes.
        limit: usize,
    },
    /// The analyzer did not answer in time, or no analyzer became free in time.
    #[error("the analyzer timed out after {0:?}")]
    Timeout(Duration),
    /// The analyzer ended or violated the protocol.
    #[error("the analyzer failed: {0}")]
    Analyzer(String),
    /// The analyzer could not be started.
    #[error("cannot start the analyzer: {0}")]
    Start(String),
}

//! Why a text was not analysed.

use std::time::Duration;

/// Why a text was not analysed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    /// It takes more memory than it may.
    #[error("parsing it takes more than {} MiB of memory", .most >> 20)]
    Memory {
        /// The bytes that it may take.
        most: u64,
    },
    /// It takes more processor time than it may.
    #[error("parsing it takes more than {most:?} of processor time")]
    Cpu {
        /// The time that it may take.
        most: Duration,
    },
    /// It nests deeper than the stack of the parser.
    #[error("it nests too deeply to be parsed")]
    Stack,
    /// The parser failed.
    #[error("the parser failed on it")]
    Crashed,
    /// It is longer than what is parsed.
    #[error("its {length} bytes are more than the {most} that are parsed")]
    Long {
        /// Its length in bytes.
        length: usize,
        /// The most bytes that are parsed.
        most: usize,
    },
    /// The analyzer did not answer in time, or all were busy for so long.
    #[error("the analyzer did not answer within {0:?}")]
    Timeout(Duration),
    /// The analyzer ended, or broke the protocol.
    #[error("the analyzer failed: {0}")]
    Analyzer(String),
    /// The analyzer cannot be started.
    #[error("cannot start the analyzer: {0}")]
    Start(String),
}

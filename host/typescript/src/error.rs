//! Errors of type stripping.

use crate::location::Location;

/// Error of converting a text to JavaScript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StripError {
    /// The text is not valid TypeScript, or uses TypeScript that cannot be converted.
    #[error("{message}")]
    Syntax {
        /// A description of the error in one line.
        message: String,
        /// The position of the error.
        location: Location,
    },
    /// The text is too long to be parsed.
    #[error("TypeScript file of {length} bytes exceeds the maximum of {max_len} bytes: split it, or compile it first")]
    Long {
        /// The length in bytes.
        length: usize,
        /// The longest text that is parsed, in bytes.
        max_len: usize,
    },
    /// The namespaces, enums and aliases of the text did not become JavaScript in one pass.
    #[error("cannot convert the namespaces and enums of this program to JavaScript")]
    Lowering,
}

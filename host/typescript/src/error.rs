//! Why types were not taken out.

use crate::place::Place;

/// Why a text was not turned into JavaScript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StripError {
    /// The text is no TypeScript, or TypeScript that has no JavaScript here.
    #[error("{message}")]
    Syntax {
        /// What is wrong, in one line.
        message: String,
        /// Where.
        place: Place,
    },
    /// The text is longer than what is parsed.
    #[error("a TypeScript file of {length} bytes is longer than {most}: split it, or compile it before")]
    Long {
        /// Its length in bytes.
        length: usize,
        /// The most that is parsed.
        most: usize,
    },
    /// Its namespaces, enums and aliases did not become JavaScript in one pass.
    #[error("the namespaces and enums of this text cannot be turned into JavaScript")]
    Lowering,
}

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
    /// There is not enough memory to parse it.
    #[error("not enough memory to parse {length} bytes of TypeScript")]
    NoRoom {
        /// Its length in bytes.
        length: usize,
    },
}

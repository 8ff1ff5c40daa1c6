//! Takes the types out of TypeScript, so that what is left is the same program in JavaScript, and tells what a program
//! of either wants of an operating system ([`wants`]).
//!
//! Types, interfaces and declarations go; enums, namespaces and parameter properties become the code that they stand
//! for; imports that only types need are left out. Nothing is checked but the syntax, and nothing is made older: the
//! engine that runs the result knows modern JavaScript. JSX and decorators are refused.
//!
//! The text may be hostile. Only its length is bounded here: parsing it may take any amount of memory, time and stack, so the
//! calling process must be one that may die of it.
//!
//! # Examples
//! ```
//! let stripped = codebox_typescript::strip("sum.ts", "const sum = (a: number, b: number): number => a + b;")?;
//! assert_eq!(stripped.code, "const sum = (a, b) => a + b;\n");
//! # Ok::<(), codebox_typescript::StripError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod lower;
mod place;
mod transform;
mod unsupported;
mod wants;

pub use error::StripError;
pub use place::Place;
pub use wants::{Lack, Sureness, Want};

/// The longest text that is parsed, in bytes.
pub const LONGEST: usize = 512 << 10;

/// JavaScript made of TypeScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// The program.
    pub code: String,
    /// Where each part of it came from: the `mappings` of a version 3 source map, whose only source is the text.
    pub mappings: String,
}

/// Takes the types out of `text`, the content of `file`.
///
/// The file's name only says which kind of TypeScript it is: `.cts` is no module, and all else is one if it can be. A text
/// has [`LONGEST`] bytes at most.
///
/// # Errors
/// [`StripError::Syntax`] where the text is no TypeScript, and others where it is not looked at.
pub fn strip(file: &str, text: &str) -> Result<Stripped, StripError> {
    check_length(text)?;
    transform::strip(file, text)
}

/// What the program in `text`, the content of `file`, wants that a WebAssembly guest does not have.
///
/// The file's ending says whether it is TypeScript or JavaScript; a text with errors is read as far as it can be.
///
/// # Errors
/// [`StripError`] where the text is not looked at.
///
/// # Examples
/// ```
/// let wants = codebox_typescript::wants("a.mjs", "import { spawn } from 'node:child_process';\nspawn('ls');")?;
/// assert_eq!((wants[0].words.as_str(), wants[0].line), ("child_process.spawn", 2));
/// # Ok::<(), codebox_typescript::StripError>(())
/// ```
pub fn wants(file: &str, text: &str) -> Result<Vec<Want>, StripError> {
    if !wants::can_want(text) {
        return Ok(Vec::new());
    }
    check_length(text)?;
    Ok(wants::of(file, text))
}

/// Only parses a text, for measuring what the rest of [`strip`] costs; tells whether it is TypeScript.
///
/// # Errors
/// As for [`strip`], where the text is not looked at.
#[doc(hidden)]
pub fn parse_only(file: &str, text: &str) -> Result<bool, StripError> {
    check_length(text)?;
    Ok(transform::parse_only(file, text))
}

fn check_length(text: &str) -> Result<(), StripError> {
    let length = text.len();
    if length > LONGEST { Err(StripError::Long { length, most: LONGEST }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

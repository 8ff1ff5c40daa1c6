//! Conversion of TypeScript to JavaScript by removing the types, and analysis of programs in either language for what
//! they need from an operating system ([`requirements`]).
//!
//! Types, interfaces and declarations are removed. Enums, namespaces and parameter properties become the code that they
//! stand for. Imports that only types need are left out. Only the syntax is checked, and the code is not converted to
//! an older version of JavaScript, because the engine supports modern JavaScript. Elements of JSX in `.tsx` and `.jsx` become calls of
//! functions. Standard decorators and `accessor` are lowered to JavaScript. A text that begins
//! with a comment of `@experimentalDecorators` has those of that option; `@emitDecoratorMetadata` and `@strictNullChecks` in it stand for the
//! options of the same names.
//!
//! The text may be hostile. This crate bounds only its length. Parsing it may take any amount of memory, time and
//! stack, so the calling process must be one that may crash.
//!
//! # Examples
//! ```
//! let stripped = codebox_typescript::strip("sum.ts", "const sum = (a: number, b: number): number => a + b;")?;
//! assert_eq!(stripped.code, "const sum = (a, b) => a + b;\n");
//! # Ok::<(), codebox_typescript::StripError>(())
//! ```
#![forbid(unsafe_code)]

mod commonjs;
mod error;
mod legacy;
mod location;
mod lower;
mod requirements;
mod transform;
mod unsupported;

pub use error::StripError;
pub use location::Location;
pub use requirements::{Certainty, Facility, Requirement};

/// The length of the longest text that is parsed, in bytes.
pub const MAX_TEXT_LEN: usize = 512 << 10;

/// A program converted from TypeScript to JavaScript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrippedProgram {
    /// The JavaScript program.
    pub code: String,
    /// The `mappings` of a version 3 source map whose only source is the text.
    pub mappings: String,
}

/// Removes the types from `text`, the content of `file`.
///
/// The name of the file only determines the kind of TypeScript: `.cts` is a CommonJS module, `.tsx` and `.jsx` have JSX, and any other
/// file than `.cts` is an ES module if it can be. A text may have at most [`MAX_TEXT_LEN`] bytes.
///
/// # Errors
/// [`StripError::Syntax`] if the text is not valid TypeScript, and others if the text is not parsed.
pub fn strip(file: &str, text: &str) -> Result<StrippedProgram, StripError> {
    check_length(text)?;
    transform::strip(file, text)
}

/// Returns what the program in `text`, the content of `file`, needs and a WebAssembly guest does not have.
///
/// The extension of the file distinguishes TypeScript from JavaScript. A text with errors is analyzed as far as it can
/// be parsed.
///
/// # Errors
/// [`StripError`] if the text is not parsed.
///
/// # Examples
/// ```
/// let requirements = codebox_typescript::requirements("a.mjs", "import { spawn } from 'node:child_process';\nspawn('ls');")?;
/// assert_eq!((requirements[0].words.as_str(), requirements[0].line), ("child_process.spawn", 2));
/// # Ok::<(), codebox_typescript::StripError>(())
/// ```
pub fn requirements(file: &str, text: &str) -> Result<Vec<Requirement>, StripError> {
    if !requirements::may_have_requirements(text) {
        return Ok(Vec::new());
    }
    check_length(text)?;
    Ok(requirements::from_text(file, text))
}

/// Parses a text without converting it, in order to measure the cost of the rest of [`strip`]. Returns true if the text
/// is TypeScript.
///
/// # Errors
/// As for [`strip`], if the text is not parsed.
#[doc(hidden)]
pub fn parse_only(file: &str, text: &str) -> Result<bool, StripError> {
    check_length(text)?;
    Ok(transform::parse_only(file, text))
}

fn check_length(text: &str) -> Result<(), StripError> {
    let length = text.len();
    if length > MAX_TEXT_LEN { Err(StripError::Long { length, max_len: MAX_TEXT_LEN }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;

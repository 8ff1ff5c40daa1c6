//! The needs of Python programs, found in their syntax trees.

use codebox_analysis::{MAX_PYTHON_LEN, Needs, SyntaxError};
use ruff_python_parser::{ParseError, parse_module};

mod first_imports;
mod imports;
mod need_set;
mod powers;

/// Determines the imports of a program and its needs that WebAssembly does not satisfy.
///
/// A text that is longer than [`MAX_PYTHON_LEN`] has no needs. The walk over the syntax tree takes stack for each
/// level.
#[must_use]
pub fn python_needs(text: &str) -> Needs {
    if text.len() > MAX_PYTHON_LEN {
        return Needs::default();
    }
    let module = match parse_module(text) {
        Ok(module) => module,
        Err(error) => return Needs { syntax_error: Some(fault(text, &error)), ..Needs::default() },
    };
    let imports = imports::from_suite(text, module.suite());
    let powers = powers::from_suite(text, module.suite(), &imports);
    Needs { imports, first_imports: first_imports::from_suite(module.suite()), powers, syntax_error: None }
}

/// Returns true if a text may be Python, which includes every text that is too long to be parsed.
#[must_use]
pub fn can_be_python(text: &str) -> bool {
    text.len() > MAX_PYTHON_LEN || parse_module(text).is_ok()
}

fn fault(text: &str, error: &ParseError) -> SyntaxError {
    let place = error.location.start().to_usize();
    let before = text.bytes().take(place).filter(|byte| *byte == b'\n');
    SyntaxError { line: u32::try_from(before.count() + 1).unwrap_or(u32::MAX), message: error.error.to_string() }
}

#[cfg(test)]
mod tests;

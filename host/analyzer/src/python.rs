//! The needs of Python programs, found in their syntax trees.

use codebox_analysis::{LONGEST_PYTHON, Needs, SyntaxFault};
use ruff_python_parser::{ParseError, parse_module};

mod gathered;
mod imports;
mod powers;

/// Determines the imports of a program and its needs that WebAssembly does not satisfy.
///
/// A text that is longer than [`LONGEST_PYTHON`] has no needs. The walk over the syntax tree takes stack for each
/// level.
#[must_use]
pub fn python_needs(text: &str) -> Needs {
    if text.len() > LONGEST_PYTHON {
        return Needs::default();
    }
    let module = match parse_module(text) {
        Ok(module) => module,
        Err(error) => return Needs { syntax_error: Some(fault(text, &error)), ..Needs::default() },
    };
    let imports = imports::of(text, module.suite());
    let powers = powers::of(text, module.suite(), &imports);
    Needs { imports, powers, syntax_error: None }
}

/// Returns true if a text may be Python, which includes every text that is too long to be parsed.
#[must_use]
pub fn can_be_python(text: &str) -> bool {
    text.len() > LONGEST_PYTHON || parse_module(text).is_ok()
}

fn fault(text: &str, error: &ParseError) -> SyntaxFault {
    let place = error.location.start().to_usize();
    let before = text.bytes().take(place).filter(|byte| *byte == b'\n');
    SyntaxFault { line: u32::try_from(before.count() + 1).unwrap_or(u32::MAX), message: error.error.to_string() }
}

#[cfg(test)]
mod tests;

//! Patches of a pinned module: functions are found by name, and positions in them by a sequence of operators.
//!
//! A patch is described by data (`guest-runtimes/LANGUAGE/patches/NAME.toml`). The patch states how often every
//! sequence occurs, and a module with a different count is refused: a patch is applied as a whole or not at all.

mod apply;
mod names;
mod operator;
mod overflow;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use apply::apply;
use operator::Pattern;
use overflow::Overflow;

/// Version of the patcher. It changes whenever the same description would turn the same module into a different one.
pub(crate) const PATCHER_VERSION: u32 = 2;

/// The contents of a patch file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    /// Names of memory addresses, which patterns use instead of numbers.
    addresses: Option<Addresses>,
    /// The changes, each in one function.
    #[serde(rename = "edit", default)]
    edits: Vec<Edit>,
    /// Loops whose products are checked for overflow.
    #[serde(rename = "overflow", default)]
    overflows: Vec<Overflow>,
}

/// Consecutive words of static memory, whose addresses are read from the stores of the function that fills them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addresses {
    /// The function whose `i32.store` operators have these addresses, in order.
    function: String,
    /// The number of words that the function fills.
    count: usize,
    /// Names of words, with their positions.
    names: BTreeMap<String, usize>,
}

/// A sequence of operators that is replaced in one function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The function's name in the module's name section.
    function: String,
    /// The number of times that the sequence must occur.
    #[serde(default = "once")]
    count: usize,
    /// The operators to replace.
    find: Vec<Pattern>,
    /// The replacement operators.
    replace: Vec<Pattern>,
}

fn once() -> usize {
    1
}

impl Patch {
    /// Parses a description.
    ///
    /// # Errors
    /// The parser's message if the text is not a patch, or a message if the patch changes nothing.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let patch: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        let is_empty = patch.edits.is_empty() && patch.overflows.is_empty();
        if is_empty || patch.edits.iter().any(|edit| edit.find.is_empty() || edit.count == 0) {
            return Err("a patch must contain edits, and every edit must find operators at least once".into());
        }
        Ok(patch)
    }
}

/// The reason why a patch does not fit a module.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// The module cannot be parsed.
    #[error("the module cannot be read: {0}")]
    Module(String),
    /// A name stands for no function or for several functions.
    #[error("expected 1 function named {name}, found {found}")]
    Function {
        /// The function's name.
        name: String,
        /// The number of functions with that name.
        found: usize,
    },
    /// A sequence of operators does not occur as often as expected.
    #[error("expected {expected} of `{sequence}` in function {function}, found {found}")]
    Count {
        /// The function's name.
        function: String,
        /// The operators, as written in the patch.
        sequence: String,
        /// The expected number of occurrences.
        expected: usize,
        /// The actual number of occurrences.
        found: usize,
    },
    /// Two edits change the same operators.
    #[error("two edits of function {0} overlap")]
    Overlap(String),
    /// A pattern uses an address name that is not defined.
    #[error("there is no address named {0}")]
    Address(String),
    /// The stores that addresses are read from do not fill consecutive words.
    #[error("expected {expected} consecutive words stored in function {function}, found {found}")]
    Words {
        /// The function's name.
        function: String,
        /// The expected number of words.
        expected: usize,
        /// The number of consecutive words if it differs from `expected`, and otherwise the number of all stored words.
        found: usize,
    },
}

#[cfg(test)]
mod tests;

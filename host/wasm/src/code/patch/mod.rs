//! Patches of a pinned module: functions found by name, places in them by a sequence of operators.
//!
//! A patch is described by data (`guest-runtimes/LANGUAGE/patches/NAME.toml`). Every place that it changes is counted,
//! and a module in which a count differs is refused: a patch is applied whole or not at all.

mod apply;
mod names;
mod operator;
mod overflow;

use std::collections::BTreeMap;

use serde::Deserialize;

pub(crate) use apply::apply;
use operator::Pattern;
use overflow::Overflow;

/// Changes whenever the same description would make another module of the same module.
pub(crate) const PATCHER_VERSION: u32 = 2;

/// The description of a patch, as its file gives it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    /// Names of memory addresses, which patterns use instead of numbers.
    addresses: Option<Addresses>,
    /// The changes, each in one function.
    #[serde(rename = "edit", default)]
    edits: Vec<Edit>,
    /// Loops whose products tell of an overflow.
    #[serde(rename = "overflow", default)]
    overflows: Vec<Overflow>,
}

/// Consecutive words of static memory, read off the stores of the function that fills them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Addresses {
    /// The function whose `i32.store` operators have these addresses, in order.
    function: String,
    /// The number of words that it fills.
    count: usize,
    /// Names of words, by their position.
    names: BTreeMap<String, usize>,
}

/// A sequence of operators that is replaced in one function.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// The function's name in the module's name section.
    function: String,
    /// The number of places where the sequence has to occur.
    #[serde(default = "once")]
    count: usize,
    /// The operators that are replaced.
    find: Vec<Pattern>,
    /// The operators that take their place.
    replace: Vec<Pattern>,
}

fn once() -> usize {
    1
}

impl Patch {
    /// Reads a description.
    ///
    /// # Errors
    /// The parser's message when the text is not one, or a patch without changes.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let patch: Self = toml::from_str(text).map_err(|e| e.to_string())?;
        let is_empty = patch.edits.is_empty() && patch.overflows.is_empty();
        if is_empty || patch.edits.iter().any(|edit| edit.find.is_empty() || edit.count == 0) {
            return Err("every patch changes something, and every edit has operators to find at least once".into());
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
    /// A name stands for no function, or for several.
    #[error("expected 1 function named {name}, found {found}")]
    Function {
        /// The function's name.
        name: String,
        /// How many functions of the module have it.
        found: usize,
    },
    /// A sequence of operators does not occur as often as expected.
    #[error("expected {expected} of `{sequence}` in function {function}, found {found}")]
    Count {
        /// The function's name.
        function: String,
        /// The operators, as the patch writes them.
        sequence: String,
        /// How often they have to occur.
        expected: usize,
        /// How often they do.
        found: usize,
    },
    /// Two edits change the same operators.
    #[error("two edits of function {0} overlap")]
    Overlap(String),
    /// An address that a pattern names is not defined.
    #[error("there is no address named {0}")]
    Address(String),
    /// The stores that addresses are read from do not fill consecutive words.
    #[error("expected {expected} consecutive words stored in function {function}, found {found}")]
    Words {
        /// The function's name.
        function: String,
        /// How many words it has to fill.
        expected: usize,
        /// How many it fills, up to the first that does not follow the one before.
        found: usize,
    },
}

#[cfg(test)]
mod tests;

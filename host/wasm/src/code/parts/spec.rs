//! Description of a module's parts.

use serde::{Deserialize, Serialize};

/// Maximum number of parts.
pub(crate) const MAX_PARTS: usize = 8;

/// The division of a module's functions into parts that are loaded separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitSpec {
    /// Prefix of the names of the functions through which a program enters a later part. A call of such a function loads
    /// its part.
    pub entry_prefix: String,
    /// The parts, in the order in which they are loaded.
    #[serde(rename = "part")]
    pub parts: Vec<PartSpec>,
}

/// A part of a module's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// The part's name.
    pub name: String,
    /// Ranges of function indices, each as its first index and the index after its last one. Empty for the last part,
    /// which has all functions that are in no range.
    #[serde(default)]
    pub functions: Vec<(u32, u32)>,
}

impl SplitSpec {
    /// Returns the position of a part.
    pub(crate) fn position(&self, part: &str) -> Option<usize> {
        self.parts.iter().position(|one| one.name == part)
    }

    /// Returns true if exactly the last part has no ranges, no two parts have the same name, and their number is allowed.
    pub(crate) fn is_consistent(&self) -> bool {
        let is_last = |index| index + 1 == self.parts.len();
        let is_valid = |(index, part): (usize, &PartSpec)| {
            part.functions.is_empty() == is_last(index) && self.position(&part.name) == Some(index)
        };
        (2..=MAX_PARTS).contains(&self.parts.len()) && self.parts.iter().enumerate().all(is_valid)
    }
}

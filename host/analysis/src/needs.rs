//! The needs of a program, as its text shows them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::power::{Need, Weight};

/// The longest Python text that is parsed, in bytes. Hardly any script is a tenth of it.
pub const LONGEST_PYTHON: usize = 256 << 10;

/// The longest TypeScript or JavaScript text that is parsed, in bytes.
pub const LONGEST_SCRIPT: usize = 512 << 10;

/// Most needs that are taken from an answer; the analyzer keeps 32 of each weight.
#[cfg(feature = "client")]
const MOST_POWERS: usize = 64;

/// The longest words of a need, which come from the analyzer's own tables.
#[cfg(feature = "client")]
const LONGEST_WORDS: usize = 128;

/// What a program needs, as far as its text tells.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// Modules that a Python program imports: as written (`os.path`), and their first parts (`os`), without relative ones.
    ///
    /// Import statements count wherever they stand, also in a function that may never run and in a `try` that
    /// may fail: knowing more than is needed costs little.
    pub imports: BTreeSet<String>,
    /// What it needs that WebAssembly does not give, in the order of its text.
    pub powers: Vec<Need>,
    /// Why the text could not be parsed. Only Python itself tells the user; nothing else is known then.
    pub syntax_error: Option<SyntaxFault>,
}

/// Where a text stops being Python.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntaxFault {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub message: String,
}

impl Needs {
    /// The powers that the program cannot do without.
    pub fn required(&self) -> impl Iterator<Item = &Need> {
        self.powers.iter().filter(|need| need.weight == Weight::Required)
    }

    /// The modules without their submodules.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(String::as_str).filter(|name| !name.contains('.'))
    }

    /// Returns true if every part is of the size and the characters that an analyzer of ours gives it.
    #[cfg(feature = "client")]
    pub(crate) fn is_well_formed(&self) -> bool {
        let plain = |need: &Need| {
            need.words.len() <= LONGEST_WORDS
                && need.power.as_word().len() <= LONGEST_WORDS
                && !need.words.chars().any(char::is_control)
                && !need.power.as_word().chars().any(char::is_control)
        };
        self.powers.len() <= MOST_POWERS && self.powers.iter().all(plain)
    }
}

/// Returns true if a Python text can have needs: only imports show any.
#[must_use]
pub fn can_need(text: &str) -> bool {
    text.contains("import")
}

/// Returns true if a text of JavaScript or TypeScript can have needs: without any of these words it has only the language
/// itself.
#[must_use]
pub fn script_can_need(text: &str) -> bool {
    const WORDS: [&str; 9] =
        ["import", "require", "fetch", "WebSocket", "EventSource", "Worker", "WebAssembly", "Stream(", " from "];
    WORDS.iter().any(|word| text.contains(word))
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use super::*;
    use crate::Power;

    #[test]
    fn rejects_needs_that_no_analyzer_gives() {
        let with = |count: usize, words: &str| Needs {
            powers: vec![
                Need { power: Power::Threads, weight: Weight::Required, line: 1, words: words.to_owned() };
                count
            ],
            ..Needs::default()
        };
        assert!(with(64, "threading.Thread").is_well_formed());
        assert!(!with(65, "threading.Thread").is_well_formed());
        assert!(!with(1, "a\u{1b}[2J").is_well_formed());
        assert!(!with(1, &"a".repeat(129)).is_well_formed());
    }
}

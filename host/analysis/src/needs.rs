//! The needs of a program, as far as its text shows them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::power::{Need, Weight};

/// The length of the longest Python text that is parsed, in bytes. Hardly any script has a tenth of it.
pub const MAX_PYTHON_LEN: usize = 256 << 10;

/// The length of the longest TypeScript or JavaScript text that is parsed, in bytes.
pub const MAX_SCRIPT_LEN: usize = 512 << 10;

/// The largest number of needs that is accepted from an answer. The analyzer returns at most 32 of each weight.
#[cfg(feature = "client")]
const MAX_NEEDS: usize = 64;

/// The longest description of a need, in bytes. Descriptions come from the analyzer's own tables.
#[cfg(feature = "client")]
const MAX_DESCRIPTION_LEN: usize = 128;

/// The needs of a program, as far as its text shows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needs {
    /// The absolute imports of a Python program: modules as written (`os.path`) and their first components (`os`).
    ///
    /// All import statements count, including those in functions that may never run and in `try` blocks that may fail,
    /// because surplus entries cost little.
    pub imports: BTreeSet<String>,
    /// The absolute imports with which a Python program starts, before any other statement, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_imports: Vec<FirstImport>,
    /// The needed capabilities that WebAssembly does not have, in the order of the text.
    pub powers: Vec<Need>,
    /// The syntax error of the text. Python itself reports it to the user. The other fields are empty in that case.
    pub syntax_error: Option<SyntaxError>,
}

/// An import statement at the start of a Python program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstImport {
    /// The module, as written.
    pub module: String,
    /// The names that `from MODULE import NAMES` imports; empty for `import MODULE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The largest number of modules and names in the first imports of a program. Further ones are left out.
pub const MAX_FIRST_IMPORTS: usize = 64;

/// The largest length of a module or name in the first imports.
pub const MAX_IMPORT_LEN: usize = 128;

impl FirstImport {
    /// Returns true if the module and all names are short identifiers.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        let is_plain = |name: &str| {
            !name.is_empty()
                && name.len() <= MAX_IMPORT_LEN
                && name.chars().all(|c| c.is_alphanumeric() || c == '_')
                && !name.starts_with(|c: char| c.is_numeric())
        };
        self.module.len() <= MAX_IMPORT_LEN
            && self.module.split('.').all(is_plain)
            && self.names.iter().all(|name| name == "*" || is_plain(name))
    }
}

/// A syntax error in a Python text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SyntaxError {
    /// The line, counted from 1.
    pub line: u32,
    /// A description of the error.
    pub message: String,
}

impl Needs {
    /// Returns the needs that the program cannot work without.
    pub fn required(&self) -> impl Iterator<Item = &Need> {
        self.powers.iter().filter(|need| need.weight == Weight::Required)
    }

    /// Returns the imported modules without their submodules.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().map(String::as_str).filter(|name| !name.contains('.'))
    }

    /// Returns true if all parts have the sizes and characters that the analyzer produces.
    #[cfg(feature = "client")]
    pub(crate) fn is_well_formed(&self) -> bool {
        let plain = |need: &Need| {
            need.words.len() <= MAX_DESCRIPTION_LEN
                && need.power.report_name().len() <= MAX_DESCRIPTION_LEN
                && !need.words.chars().any(char::is_control)
                && !need.power.report_name().chars().any(char::is_control)
        };
        let count: usize = self.first_imports.iter().map(|import| 1 + import.names.len()).sum();
        self.powers.len() <= MAX_NEEDS
            && self.powers.iter().all(plain)
            && count <= MAX_FIRST_IMPORTS
            && self.first_imports.iter().all(FirstImport::is_well_formed)
    }
}

/// Returns true if a Python text can have needs, which requires an import.
#[must_use]
pub fn may_have_needs(text: &str) -> bool {
    text.contains("import")
}

/// Returns true if a JavaScript or TypeScript text can have needs. Without any of these words it uses only the language
/// itself.
#[must_use]
pub fn script_may_have_needs(text: &str) -> bool {
    const WORDS: [&str; 10] = [
        "import",
        "require",
        "fetch",
        "WebSocket",
        "EventSource",
        "Worker",
        "WebAssembly",
        "Stream(",
        " from ",
        "subtle",
    ];
    WORDS.iter().any(|word| text.contains(word))
}

#[cfg(all(test, feature = "client"))]
mod tests {
    use super::*;
    use crate::Capability;

    #[test]
    fn rejects_malformed_needs() {
        let with = |count: usize, words: &str| Needs {
            powers: vec![
                Need { power: Capability::Threads, weight: Weight::Required, line: 1, words: words.to_owned() };
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

//! The needs of JavaScript and TypeScript programs.

use codebox_analysis::{Capability, Need, Needs, Weight};
use codebox_typescript::{Certainty, Facility, Requirement};

/// Determines the needs of a program that WebAssembly does not satisfy. The file's extension selects the language.
///
/// A text that is longer than [`codebox_typescript::MAX_TEXT_LEN`] has no needs.
#[must_use]
pub fn script_needs(file: &str, text: &str) -> Needs {
    let requirements = codebox_typescript::requirements(file, text).unwrap_or_default();
    Needs { powers: requirements.into_iter().map(need).collect(), ..Needs::default() }
}

fn need(Requirement { facility, certainty, line, words }: Requirement) -> Need {
    let power = match facility {
        Facility::Threads => Capability::Threads,
        Facility::Processes => Capability::Processes,
        Facility::Sockets => Capability::Sockets,
        Facility::Module(name) => Capability::Module(name.to_owned()),
    };
    let weight = match certainty {
        Certainty::Certain => Weight::Required,
        Certainty::Possible => Weight::Optional,
    };
    Need { power, weight, line, words }
}

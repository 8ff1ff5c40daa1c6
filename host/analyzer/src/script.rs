//! The needs of JavaScript and TypeScript programs.

use codebox_analysis::{Need, Needs, Power, Weight};
use codebox_typescript::{Lack, Sureness, Want};

/// Determines the needs of a program that WebAssembly does not satisfy. The file's extension selects the language.
///
/// A text that is longer than [`codebox_typescript::LONGEST`] has no needs.
#[must_use]
pub fn script_needs(file: &str, text: &str) -> Needs {
    let wants = codebox_typescript::wants(file, text).unwrap_or_default();
    Needs { powers: wants.into_iter().map(need).collect(), ..Needs::default() }
}

fn need(Want { lack, sureness, line, words }: Want) -> Need {
    let power = match lack {
        Lack::Threads => Power::Threads,
        Lack::Processes => Power::Processes,
        Lack::Sockets => Power::Sockets,
        Lack::Module(name) => Power::Module(name.to_owned()),
    };
    let weight = match sureness {
        Sureness::Certain => Weight::Required,
        Sureness::Possible => Weight::Optional,
    };
    Need { power, weight, line, words }
}

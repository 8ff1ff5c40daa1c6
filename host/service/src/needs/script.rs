//! The powers that a JavaScript or TypeScript program needs.

use codebox_core::Language;
use codebox_typescript::{Lack, Sureness, Want};

use super::power::{Need, Power, Weight};

/// Nothing is found in a text that could exhaust the host by being looked at.
pub(super) fn powers(language: &Language, file: &str, text: &str) -> Vec<Need> {
    let file = match language {
        // Text without a name, and files that were said to be TypeScript.
        Language::TypeScript if !file.ends_with("ts") => "main.ts",
        _ => file,
    };
    let wants = codebox_typescript::wants(file, text).unwrap_or_default();
    wants.into_iter().map(need).collect()
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

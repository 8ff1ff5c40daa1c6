//! What a program needs, found by having it parsed and never by running it.
//!
//! The text is parsed by the [`Analyzer`], in a process of its own. Where that fails nothing is known of the program, which
//! runs as one that needs nothing.

use std::borrow::Cow;

use codebox_analysis::{Analyzer, Budget, can_need, script_can_need};
use codebox_core::{Job, Language};

mod ask;
mod neighbours;

pub use ask::{Ask, BadAsk};
pub use codebox_analysis::{Need, Needs, Power, SyntaxFault, Weight};
pub use neighbours::Neighbours;

/// Finds everything that a job's program needs: imports and powers. Where the text cannot be parsed within the job's
/// limits, nothing is found and the second value says why.
///
/// A Python module that is among the `neighbours` is not the library's, whatever its name. A text in another encoding is read
/// as far as it is ASCII, which module names nearly always are.
#[must_use]
pub fn needs_of(job: &Job, neighbours: &Neighbours, analyzer: &Analyzer) -> (Needs, Option<String>) {
    let Some(bytes) = job.source.text() else { return Default::default() };
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let budget = Budget::within(job.limits.memory.at().map(|size| size.get()), job.limits.cpu.at());
    let found = match &job.language {
        Language::Python => analyzer.python_needs(&text, budget),
        Language::JavaScript | Language::TypeScript => {
            analyzer.script_needs(file_of(job, &job.language), &text, budget)
        }
        Language::Command | Language::Named(_) => Ok(Needs::default()),
    };
    match found {
        Ok(mut needs) => {
            if job.language == Language::Python {
                needs.powers.retain(|need| need.module().is_none_or(|module| !neighbours.has(module)));
            }
            (needs, None)
        }
        Err(error) => (Needs::default(), Some(format!("what the program needs is not known: {error}"))),
    }
}

/// Returns true if the analyzer may be asked about a job's program, now or while it runs: a script may load TypeScript.
#[must_use]
pub fn is_analyzed(job: &Job) -> bool {
    let shows =
        |is_shown: fn(&str) -> bool| job.source.text().is_some_and(|text| is_shown(&String::from_utf8_lossy(text)));
    match &job.language {
        Language::Python => shows(can_need),
        Language::JavaScript => shows(|text| script_can_need(text) || can_load(text)),
        Language::TypeScript => true,
        Language::Command | Language::Named(_) => false,
    }
}

/// Returns true if a script can load another: it has a word for that, or a way to make one of a text.
fn can_load(text: &str) -> bool {
    ["import", "equire", "eval", "Function", "constructor"].iter().any(|word| text.contains(word))
}

/// The name whose ending says how a script is parsed.
fn file_of<'j>(job: &'j Job, language: &Language) -> &'j str {
    match (language, job.source.file_name()) {
        // Text without a name, and files that were said to be TypeScript.
        (Language::TypeScript, file) if !file.ends_with("ts") => "main.ts",
        (_, file) => file,
    }
}

#[cfg(test)]
mod tests;

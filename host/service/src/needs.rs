//! Needs of a program, found by parsing it and never by running it.
//!
//! The [`Analyzer`] parses the text in its own process. If that fails, the needs are unknown, and the program runs like
//! one without needs.

use std::borrow::Cow;

use codebox_analysis::{Analyzer, Budget, may_have_needs, script_may_have_needs};
use codebox_core::{Adapter, Job};

mod isolation_request;
mod local_modules;

pub use codebox_analysis::{Capability, FirstImport, Need, Needs, SyntaxError, Weight};
pub use isolation_request::{InvalidIsolationRequest, IsolationRequest};
pub(crate) use local_modules::LocalModules;

/// Returns the needs of a job's program: imports and required features. If the text cannot be parsed within the job's
/// limits, returns no needs and the reason.
///
/// A Python module that exists among the `neighbours` is not a library module, whatever its name. Non-UTF-8 text is
/// decoded lossily, which keeps ASCII module names, and nearly all module names are ASCII.
pub(crate) fn needs_of(job: &Job, neighbours: &LocalModules, analyzer: &Analyzer) -> (Needs, Option<String>) {
    let Some(bytes) = job.source.text() else { return Default::default() };
    let text: Cow<'_, str> = String::from_utf8_lossy(bytes);
    let budget = Budget::within(job.limits.memory.at().map(|size| size.get()), job.limits.cpu.at());
    let found = match job.language.adapter() {
        Some(Adapter::Python) => analyzer.python_needs(&text, budget),
        Some(Adapter::Node) => analyzer.script_needs(file_of(job), &text, budget),
        Some(Adapter::Lua) | None => Ok(Needs::default()),
    };
    match found {
        Ok(mut needs) => {
            if job.language.adapter() == Some(Adapter::Python) {
                needs.powers.retain(|need| need.module().is_none_or(|module| !neighbours.has(module)));
            }
            (needs, None)
        }
        Err(error) => (Needs::default(), Some(format!("cannot determine what the program needs: {error}"))),
    }
}

/// Returns true if the analyzer may be needed for a job's program, before or during the run, because a script may load
/// TypeScript.
#[must_use]
pub fn is_analyzed(job: &Job) -> bool {
    let shows =
        |is_shown: fn(&str) -> bool| job.source.text().is_some_and(|text| is_shown(&String::from_utf8_lossy(text)));
    match job.language.adapter() {
        Some(Adapter::Python) => shows(may_have_needs),
        Some(Adapter::Node) => job.language.is_typed() || shows(|text| script_may_have_needs(text) || can_load(text)),
        Some(Adapter::Lua) | None => false,
    }
}

/// Returns true if a script may load another: it contains a keyword for that, or a means to create one from a string.
fn can_load(text: &str) -> bool {
    ["import", "equire", "eval", "Function", "constructor"].iter().any(|word| text.contains(word))
}

/// Returns the file name whose extension determines how a script is parsed.
fn file_of(job: &Job) -> &str {
    match job.source.file_name() {
        // Inline text, and files whose language is set to TypeScript.
        file if job.language.is_typed() && !file.ends_with("ts") && !file.ends_with("sx") => "main.ts",
        file => file,
    }
}

#[cfg(test)]
mod tests;

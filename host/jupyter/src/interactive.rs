//! Completion and description of names, by a cell of codebox in the session.

use codebox_core::{Adapter, Language};
use serde::Deserialize;

/// Program in Python; its variables are given.
const PYTHON: &str = include_str!("interactive.py");

/// Function in JavaScript.
const JAVASCRIPT: &str = include_str!("interactive.js");

/// Completions of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Completions {
    /// Names, sorted.
    pub matches: Vec<String>,
    /// Place of the name in the text, in characters.
    pub start: usize,
    /// End of the name.
    pub end: usize,
}

/// Returns the cell that completes the name before a place in a text, counted in characters. Its value is not kept, and its standard output
/// is for [`completions_of`].
#[must_use]
pub fn complete_cell(language: &Language, text: &str, cursor: usize) -> String {
    cell(language, text, cursor, "complete")
}

/// Returns the completions that the cell of [`complete_cell`] has written; `None` if it has failed. They are claims of the guest.
#[must_use]
pub fn completions_of(stdout: &[u8]) -> Option<Completions> {
    let found: Completions = serde_json::from_slice(stdout).ok()?;
    (found.start <= found.end).then_some(found)
}

/// Returns the cell that describes the name at a place in a text.
pub(crate) fn describe_cell(language: &Language, text: &str, cursor: usize) -> String {
    cell(language, text, cursor, "describe")
}

/// Returns the description that the cell of [`describe_cell`] has written.
pub(crate) fn description_of(stdout: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Description {
        text: Option<String>,
    }
    serde_json::from_slice::<Description>(stdout).ok()?.text
}

fn cell(language: &Language, text: &str, cursor: usize, task: &str) -> String {
    // A text in JSON is one of both languages as well.
    let text = serde_json::Value::from(text);
    if language.adapter() == Some(Adapter::Python) {
        let program = serde_json::Value::from(PYTHON);
        let names = "'__builtins__': __builtins__, 'main': globals()";
        format!("exec({program}, {{{names}, 'code': {text}, 'cursor': {cursor}, 'task': '{task}'}})")
    } else {
        let program = JAVASCRIPT.trim_end();
        format!("{program}({text}, {cursor}, '{task}');")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted() {
        let cell = complete_cell(&Language::Python, "x = '\"\\\n", 4);
        assert!(cell.ends_with(r#"'code': "x = '\"\\\n", 'cursor': 4, 'task': 'complete'})"#), "{cell}");
        assert_eq!(cell.lines().count(), 1);
    }

    #[test]
    fn claims_are_checked() {
        let found = completions_of(br#"{"matches": ["print"], "start": 0, "end": 2}"#).expect("completions");
        assert_eq!((found.matches, found.start, found.end), (vec!["print".to_owned()], 0, 2));
        for text in ["", "x", "{}", r#"{"matches": [], "start": 3, "end": 2}"#] {
            assert_eq!(completions_of(text.as_bytes()), None, "{text}");
        }
    }
}

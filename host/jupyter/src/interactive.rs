//! Completion and description of names, by a cell of codebox in the session.

use codebox_core::{Adapter, Language};
use serde::Deserialize;

/// Program in Python; its variables are given.
const PYTHON: &str = include_str!("interactive.py");

/// Function in JavaScript.
const JAVASCRIPT: &str = include_str!("interactive.js");

/// Most characters of a text around the cursor that a cell gets: the search for a name in a longer one takes too long.
const MAX_CONTEXT: usize = 1000;

/// Completions of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completions {
    /// Names, sorted.
    pub matches: Vec<String>,
    /// Place of the name in the text, in characters.
    pub start: usize,
    /// End of the name: the place of the cursor.
    pub end: usize,
}

/// Returns the cell that completes the name before a place in a text, counted in characters. Its value is not kept, and its standard output
/// is for [`completions_of`].
#[must_use]
pub fn complete_cell(language: &Language, text: &str, cursor: usize) -> String {
    let line = Line::around(text, cursor);
    cell(language, &line.before, line.before.chars().count(), "complete")
}

/// Returns the completions that the cell of [`complete_cell`] has written; `None` if it has failed. They are claims of the guest: those
/// that are not names, or do not continue the name at the cursor, are left out.
#[must_use]
pub fn completions_of(stdout: &[u8], text: &str, cursor: usize) -> Option<Completions> {
    #[derive(Deserialize)]
    struct Found {
        matches: Vec<String>,
    }
    let mut matches = serde_json::from_slice::<Found>(stdout).ok()?.matches;
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let line = Line::around(text, cursor);
    let prefix: String =
        line.before.chars().rev().take_while(|c| is_part(*c)).collect::<Vec<_>>().into_iter().rev().collect();
    matches.retain(|name| name.starts_with(&prefix) && name.chars().all(is_part));
    let end = cursor.min(text.chars().count());
    Some(Completions { matches, start: end.saturating_sub(prefix.chars().count()), end })
}

/// Returns the cell that describes the name at a place in a text.
pub(crate) fn describe_cell(language: &Language, text: &str, cursor: usize) -> String {
    let line = Line::around(text, cursor);
    cell(language, &format!("{}{}", line.before, line.after), line.before.chars().count(), "describe")
}

/// Returns the description that the cell of [`describe_cell`] has written.
pub(crate) fn description_of(stdout: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Description {
        text: Option<String>,
    }
    serde_json::from_slice::<Description>(stdout).ok()?.text
}

/// Part of a text around the cursor, in its line.
struct Line {
    before: String,
    after: String,
}

impl Line {
    fn around(text: &str, cursor: usize) -> Self {
        let at = text.char_indices().nth(cursor).map_or(text.len(), |(at, _)| at);
        let (before, after) = text.split_at(at);
        let before = before.rsplit('\n').next().unwrap_or_default();
        let length = before.chars().count();
        let before = before.chars().skip(length.saturating_sub(MAX_CONTEXT)).collect();
        let after = after.split('\n').next().unwrap_or_default().chars().take(MAX_CONTEXT).collect();
        Self { before, after }
    }
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
    fn texts_are_quoted_and_short() {
        let cell = complete_cell(&Language::Python, "first\nx = '\"\\", 100);
        assert!(cell.ends_with(r#"'code': "x = '\"\\", 'cursor': 7, 'task': 'complete'})"#), "{cell}");
        assert_eq!(cell.lines().count(), 1);
        let long = "a".repeat(1 << 20);
        assert!(complete_cell(&Language::Python, &long, 1 << 20).len() < 8 << 10);
        assert!(describe_cell(&Language::JavaScript, &long, 5).len() < 8 << 10);
    }

    #[test]
    fn claims_are_checked() {
        let text = "\u{1f600}; pri";
        let stdout = r#"{"matches": ["print", "rm -rf", "prä", "pri\u001b"], "start": 0, "end": 99}"#;
        let found = completions_of(stdout.as_bytes(), text, 6).expect("completions");
        assert_eq!((found.matches, found.start, found.end), (vec!["print".to_owned()], 3, 6));
        for stdout in ["", "x", "{}", "[]"] {
            assert_eq!(completions_of(stdout.as_bytes(), text, 6), None, "{stdout}");
        }
    }
}

//! Colours of the text that is typed.

use std::iter::Peekable;
use std::str::CharIndices;

use nu_ansi_term::{Color, Style};
use reedline::{Highlighter, StyledText};

const PYTHON_WORDS: [&str; 38] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match",
    "nonlocal", "not", "or", "pass", "raise", "return", "try", "type", "while", "with", "yield",
];

const SCRIPT_WORDS: [&str; 50] = [
    "abstract",
    "as",
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "from",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "of",
    "private",
    "readonly",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "type",
    "typeof",
    "undefined",
    "using",
    "var",
    "void",
    "while",
    "yield",
];

/// Part of a program, as far as its colour depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Word,
    Text,
    Number,
    Comment,
}

/// Highlighter of a language.
pub(super) struct Colours {
    pub is_python: bool,
}

impl Highlighter for Colours {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        for (kind, text) in parts(line, self.is_python) {
            styled.push((style(kind), text.to_owned()));
        }
        styled
    }
}

fn style(kind: Kind) -> Style {
    match kind {
        Kind::Plain => Style::new(),
        Kind::Word => Style::new().fg(Color::Blue).bold(),
        Kind::Text => Style::new().fg(Color::Green),
        Kind::Number => Style::new().fg(Color::Cyan),
        Kind::Comment => Style::new().fg(Color::DarkGray),
    }
}

/// Splits a text, without a parser: a text that is not a program has colours as well.
fn parts(text: &str, is_python: bool) -> Vec<(Kind, &str)> {
    let mut parts: Vec<(Kind, &str)> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (kind, length) = first_part(rest, first, is_python);
        let (part, after) = rest.split_at(length);
        rest = after;
        match parts.last_mut() {
            // Both are next to each other in the text.
            Some((last, before)) if *last == kind => {
                let start = text.len() - rest.len() - part.len() - before.len();
                *before = &text[start..text.len() - rest.len()];
            }
            _ => parts.push((kind, part)),
        }
    }
    parts
}

fn first_part(rest: &str, first: char, is_python: bool) -> (Kind, usize) {
    let line = || rest.find('\n').unwrap_or(rest.len());
    match first {
        '#' if is_python => (Kind::Comment, line()),
        '/' if !is_python && rest.starts_with("//") => (Kind::Comment, line()),
        '/' if !is_python && rest.starts_with("/*") => (Kind::Comment, rest.find("*/").map_or(rest.len(), |at| at + 2)),
        '"' | '\'' => (Kind::Text, text_length(rest, first, is_python)),
        '`' if !is_python => (Kind::Text, text_length(rest, first, is_python)),
        '0'..='9' => {
            let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
            (Kind::Number, rest.find(|c| !is_number(c)).unwrap_or(rest.len()))
        }
        c if c.is_alphabetic() || c == '_' || c == '$' => {
            let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let words: &[&str] = if is_python { &PYTHON_WORDS } else { &SCRIPT_WORDS };
            (if words.binary_search(&&rest[..length]).is_ok() { Kind::Word } else { Kind::Plain }, length)
        }
        c => (Kind::Plain, c.len_utf8()),
    }
}

/// Returns the length of a text in quotes, which ends with the line unless its quotes are those of several lines.
fn text_length(rest: &str, quote: char, is_python: bool) -> usize {
    let triple: String = [quote; 3].iter().collect();
    let (end, is_long) = match is_python && rest.starts_with(&triple) {
        true => (triple, true),
        false => (quote.to_string(), quote == '`'),
    };
    let mut chars: Peekable<CharIndices<'_>> = rest.char_indices().peekable();
    for _ in 0..end.len() {
        chars.next();
    }
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if rest[at..].starts_with(&end) {
            return at + end.len();
        } else if c == '\n' && !is_long {
            return at;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(PYTHON_WORDS.is_sorted() && SCRIPT_WORDS.is_sorted());
    }

    #[test]
    fn parts_are_the_whole_text() {
        for text in ["", "a", "'", "'''a\nb", "`${`a`}`", "/* a", "\u{e9} = '\\'' # \u{20ac}", "0x1f", "\\", "'a\\"] {
            for is_python in [true, false] {
                let joined: String = parts(text, is_python).into_iter().map(|(_, part)| part).collect();
                assert_eq!(joined, text);
            }
        }
    }

    #[test]
    fn parts_have_kinds() {
        let kinds = |text, is_python| {
            parts(text, is_python).into_iter().filter(|(kind, _)| *kind != Kind::Plain).collect::<Vec<_>>()
        };
        assert_eq!(
            kinds("def f(x): return 'a' + 1 # b", true),
            [
                (Kind::Word, "def"),
                (Kind::Word, "return"),
                (Kind::Text, "'a'"),
                (Kind::Number, "1"),
                (Kind::Comment, "# b")
            ]
        );
        assert_eq!(
            kinds("const a = `b\n${c}`; // d", false),
            [(Kind::Word, "const"), (Kind::Text, "`b\n${c}`"), (Kind::Comment, "// d")]
        );
        assert_eq!(kinds("'''a\nb''' + 'c", true), [(Kind::Text, "'''a\nb'''"), (Kind::Text, "'c")]);
    }
}

//! Check of the prose in comments and documents.
//!
//! A comment that opens with a question word is hard to read ("What makes a job run …"); a noun phrase or a verb is
//! direct. The check covers the opening word of each comment, Python docstring, Markdown paragraph and list item, and
//! metaphors and other phrases that are not terms of the field.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::project::{Project, output_of};

/// Words that must not open a comment, docstring, paragraph or list item.
const OPENERS: [&str; 10] = ["What", "Whether", "Who", "Whom", "Whose", "Nothing", "Nobody", "None", "Where", "How"];

/// Words and phrases that must not occur in a comment or document, except in code.
const PHRASES: [&str; 24] = [
    "asked",
    "door",
    "doors",
    "for want of",
    "house",
    "keeper",
    "lets go",
    "no say",
    "patience",
    "room",
    "rooms",
    "said",
    "say for",
    "shelf",
    "shelves",
    "somebody",
    "talk",
    "talks",
    "that is none",
    "told",
    "vouch",
    "vouched",
    "vouches",
    "whoever",
];

/// Words that must not occur in a comment, except in code.
const COMMENT_PHRASES: [&str; 1] = ["nobody"];

/// Prose of a kind of file.
#[derive(Clone, Copy)]
enum Syntax {
    /// Lines that begin with one of these comment markers.
    Comments(&'static [&'static str]),
    Markdown,
}

/// Scripts without an extension: folders and files.
const SCRIPTS: [&str; 3] = ["tests/engines/", ".ci/run", "packaging/install.sh"];

/// Programs that tests run, copies of other projects' sources, build results, and the descriptions of past changes.
const EXCLUDED: [&str; 3] = ["tests/fixtures/", "guest-runtimes/javascript/prelude.js", "docs/changelog.md"];

/// Checks every file of the repository.
///
/// # Errors
/// Fails if a line does not pass; each one is printed with its place and reason.
pub fn run() -> Result<()> {
    let project = Project::find()?;
    let listed = output_of(Command::new("git").args(["ls-files", "-z"]).current_dir(&project.root))?;
    let mut found = 0;
    for name in listed.split('\0').filter(|name| !EXCLUDED.iter().any(|excluded| name.starts_with(excluded))) {
        let Some(syntax) = syntax_of(name) else { continue };
        let path = project.root.join(name);
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (line, reason) in faults(&text, syntax) {
            println!("{name}:{line}: {reason}");
            found += 1;
        }
    }
    if found > 0 {
        bail!(
            "{found} lines of prose to reword: a type's comment is a noun phrase, a function's a verb in the third person"
        );
    }
    println!("the prose of comments and documents passes");
    Ok(())
}

fn syntax_of(name: &str) -> Option<Syntax> {
    let Some(ending) = Path::new(name).extension() else {
        return SCRIPTS.iter().any(|script| name.starts_with(script)).then_some(Syntax::Comments(&["#"]));
    };
    match ending.to_str()? {
        "rs" | "js" | "cjs" | "mjs" | "ts" | "c" | "h" => Some(Syntax::Comments(&["///", "//!", "//", "/*", "* "])),
        "py" => Some(Syntax::Comments(&["#", "\"\"\""])),
        "toml" | "sh" | "yml" => Some(Syntax::Comments(&["#"])),
        "wit" => Some(Syntax::Comments(&["///", "//"])),
        "lua" => Some(Syntax::Comments(&["--"])),
        "md" => Some(Syntax::Markdown),
        _ => None,
    }
}

/// Returns the numbers of the lines that do not pass, from 1, each with the reason.
fn faults(text: &str, syntax: Syntax) -> Vec<(usize, String)> {
    match syntax {
        Syntax::Comments(markers) => comment_faults(text, markers),
        Syntax::Markdown => markdown_faults(text),
    }
}

fn comment_faults(text: &str, markers: &[&str]) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    let mut continues = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = comment_of(line, markers) else {
            continues = false;
            continue;
        };
        if let Some(opener) = opener_of(comment).filter(|_| !continues) {
            faults.push((number + 1, format!("the comment opens with \"{opener}\"")));
        }
        if let Some(phrase) = phrase_of(comment, &PHRASES).or_else(|| phrase_of(comment, &COMMENT_PHRASES)) {
            faults.push((number + 1, phrase_fault(phrase)));
        }
        continues = !comment.is_empty();
    }
    faults
}

/// Checks the first line of each paragraph and list item for openers, and all lines for phrases. Questions are allowed.
fn markdown_faults(text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    let (mut is_code, mut continues) = (false, false);
    for (number, line) in text.lines().map(str::trim).enumerate() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if let Some(phrase) = phrase_of(line, &PHRASES).filter(|_| !is_code && !is_fence) {
            faults.push((number + 1, phrase_fault(phrase)));
        }
        // A heading or a table row ends the paragraph before it.
        if is_code || is_fence || line.is_empty() || line.starts_with(['#', '|']) {
            continues = false;
            continue;
        }
        let item = item_of(line);
        let prose = item.unwrap_or(line).trim_start_matches(['*', '_', '>', ' ']);
        let is_opening = item.is_some() || !continues;
        if let Some(opener) = opener_of(prose).filter(|_| is_opening && !prose.contains('?')) {
            faults.push((number + 1, format!("the paragraph opens with \"{opener}\"")));
        }
        continues = true;
    }
    faults
}

fn phrase_fault(phrase: &str) -> String {
    format!("\"{phrase}\" is not a term of the field")
}

/// Returns the first of the phrases that occurs in the prose outside of code spans.
fn phrase_of(prose: &str, phrases: &[&'static str]) -> Option<&'static str> {
    let text: String = prose.split('`').step_by(2).collect();
    let text = text.to_lowercase();
    phrases.iter().copied().find(|phrase| contains_words(&text, phrase))
}

/// Returns true if the text contains the words, and not only as a part of longer words.
fn contains_words(text: &str, words: &str) -> bool {
    let is_boundary = |next: Option<char>| !next.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(words).any(|(at, _)| {
        is_boundary(text[..at].chars().next_back()) && is_boundary(text[at + words.len()..].chars().next())
    })
}

fn opener_of(prose: &str) -> Option<&'static str> {
    let first = prose.split(|c: char| !c.is_alphanumeric()).next()?;
    OPENERS.into_iter().find(|opener| *opener == first)
}

/// Returns the text of a line that is a comment, without its marker.
fn comment_of<'l>(line: &'l str, markers: &[&str]) -> Option<&'l str> {
    let line = line.trim_start();
    let marker = markers.iter().find(|marker| line.starts_with(**marker))?;
    Some(line[marker.len()..].trim())
}

/// Returns the text of a line that opens a Markdown list item, without its marker.
fn item_of(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "].iter().find_map(|marker| line.strip_prefix(*marker));
    bullet.or_else(|| line.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix(". "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str, name: &str) -> Vec<usize> {
        let syntax = syntax_of(name).expect("kind of file is known");
        faults(text, syntax).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn rejects_question_words_that_open_a_comment() {
        assert_eq!(lines_of("/// What makes a job run.\nfn f() {}\n", "x.rs"), [1]);
        assert_eq!(lines_of("//! Limits.\n//!\n//! Whether they hold.\n", "x.rs"), [3]);
        assert_eq!(lines_of("# Where it is\nx = 1\n", "x.py"), [1]);
        assert_eq!(lines_of("-- Nothing else.\n", "x.lua"), [1]);
    }

    #[test]
    fn checks_interface_definitions() {
        assert_eq!(lines_of("/// Limits.\ninterface limits {\n    /// What holds.\n}\n", "wit/limits.wit"), [3]);
    }

    #[test]
    fn accepts_question_words_inside_a_sentence() {
        assert_eq!(lines_of("/// Reads the file and tells\n/// What is in it.\n", "x.rs"), [0; 0]);
        assert_eq!(lines_of("/// Returns true if `Where` is set.\nlet what = 1;\n", "x.rs"), [0; 0]);
        assert_eq!(lines_of("/// Whatever the caller passes.\n", "x.rs"), [0; 0]);
    }

    #[test]
    fn rejects_phrases_anywhere_in_a_comment() {
        assert_eq!(lines_of("/// It ends for want of threads.\n// and nobody waits\n", "x.rs"), [1, 2]);
        assert_eq!(lines_of("let nobody = 1;\n", "x.rs"), [0; 0]);
    }

    #[test]
    fn rejects_metaphors_as_whole_words() {
        assert_eq!(lines_of("/// Makes room for one.\n/// The bathroom.\n/// The value `room`.\n", "x.rs"), [1]);
        assert_eq!(lines_of("# Rooms\n\n| a | the guest is told |\n\n```\ntold\n```\n", "x.md"), [1, 3]);
    }

    #[test]
    fn rejects_question_words_that_open_a_docstring() {
        assert_eq!(lines_of("def f():\n    \"\"\"What it is.\"\"\"\n", "x.py"), [2]);
        assert_eq!(lines_of("\"\"\"Reads a file.\n\nWhat it has.\n\"\"\"\nx = None\n", "x.py"), [0; 0]);
    }

    #[test]
    fn checks_scripts_without_extension() {
        assert_eq!(lines_of("#!/bin/sh\n\n# Whether it runs\n", "tests/engines/check"), [3]);
        assert_eq!(lines_of("# None yet\n", ".ci/run"), [1]);
        assert_eq!(lines_of("# How it is packed\n", "packaging/install.sh"), [1]);
        assert!(syntax_of("LICENSE").is_none());
    }

    #[test]
    fn rejects_question_words_that_open_a_paragraph_or_list_item() {
        assert_eq!(lines_of("# Limits\nWhat holds.\n\nText,\nWhere it goes on.\n", "x.md"), [2]);
        assert_eq!(lines_of("Text:\n- **How** it runs\n2. Nothing\n", "x.md"), [2, 3]);
    }

    #[test]
    fn accepts_headings_tables_code_and_questions() {
        assert_eq!(lines_of("## What holds\n\n| What | How |\n|---|---|\n", "x.md"), [0; 0]);
        assert_eq!(lines_of("```\nWhat\n\nWho\n```\n\nWhat holds?\n", "x.md"), [0; 0]);
        assert_eq!(lines_of("`None` is the default.\n", "x.md"), [0; 0]);
    }
}

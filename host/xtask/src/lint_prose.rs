//! Check of the prose in comments and documents.
//!
//! A comment that opens with a question word describes its subject by a riddle ("What makes a job run …"): a noun phrase or a verb
//! says it directly. The check looks at the opening word of each comment, paragraph and list item, and at words that
//! stand for a standard term nowhere in the field.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::project::{Project, output_of};

/// Words that open no comment, paragraph or list item.
const OPENERS: [&str; 10] = ["What", "Whether", "Who", "Whom", "Whose", "Nothing", "Nobody", "None", "Where", "How"];

/// Phrases that stand in no comment.
const PHRASES: [&str; 5] = ["nobody", "whoever", "for want of", "say for ", "that is none"];

/// Comment markers of a kind of file.
struct Syntax {
    endings: &'static [&'static str],
    markers: &'static [&'static str],
}

const SYNTAXES: [Syntax; 3] = [
    Syntax { endings: &["rs", "js", "cjs", "mjs", "ts", "c", "h"], markers: &["///", "//!", "//", "/*", "* "] },
    Syntax { endings: &["py", "toml", "sh", "yml"], markers: &["#"] },
    Syntax { endings: &["lua"], markers: &["--"] },
];

/// Folders whose files are programs that tests run, sources of others, or results of a build.
const EXCLUDED: [&str; 2] = ["tests/fixtures/", "guest-runtimes/javascript/prelude.js"];

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
    println!("the prose of comments passes");
    Ok(())
}

fn syntax_of(name: &str) -> Option<&'static Syntax> {
    let ending = Path::new(name).extension()?.to_str()?;
    SYNTAXES.iter().find(|syntax| syntax.endings.contains(&ending))
}

/// Returns the numbers of the lines that do not pass, from 1, each with the reason.
fn faults(text: &str, syntax: &Syntax) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    let mut continues = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = comment_of(line, syntax) else {
            continues = false;
            continue;
        };
        let first = comment.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        if !continues && OPENERS.contains(&first) {
            faults.push((number + 1, format!("the comment opens with \"{first}\"")));
        }
        let lower = comment.to_lowercase();
        if let Some(phrase) = PHRASES.iter().find(|phrase| lower.contains(**phrase)) {
            faults.push((number + 1, format!("\"{}\" is not a term of the field", phrase.trim())));
        }
        continues = !comment.is_empty();
    }
    faults
}

/// Returns the text of a line that is a comment, without its marker.
fn comment_of<'l>(line: &'l str, syntax: &Syntax) -> Option<&'l str> {
    let line = line.trim_start();
    let marker = syntax.markers.iter().find(|marker| line.starts_with(**marker))?;
    Some(line[marker.len()..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str, ending: &str) -> Vec<usize> {
        let syntax = syntax_of(&format!("x.{ending}")).expect("a known ending");
        faults(text, syntax).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn rejects_question_words_that_open_a_comment() {
        assert_eq!(lines_of("/// What makes a job run.\nfn f() {}\n", "rs"), [1]);
        assert_eq!(lines_of("//! Limits.\n//!\n//! Whether they hold.\n", "rs"), [3]);
        assert_eq!(lines_of("# Where it is\nx = 1\n", "py"), [1]);
        assert_eq!(lines_of("-- Nothing else.\n", "lua"), [1]);
    }

    #[test]
    fn accepts_question_words_inside_a_sentence() {
        assert_eq!(lines_of("/// Reads the file and tells\n/// What is in it.\n", "rs"), [0; 0]);
        assert_eq!(lines_of("/// Returns true if `Where` is set.\nlet what = 1;\n", "rs"), [0; 0]);
        assert_eq!(lines_of("/// Whatever the caller passes.\n", "rs"), [0; 0]);
    }

    #[test]
    fn rejects_phrases_anywhere_in_a_comment() {
        assert_eq!(lines_of("/// It ends for want of threads.\n// and nobody waits\n", "rs"), [1, 2]);
        assert_eq!(lines_of("let nobody = 1;\n", "rs"), [0; 0]);
    }
}
